// Files that are chosen with an input or dropped on a node.

export function dropped(node, input, take) {
  input.addEventListener("change", () => take(input.files[0]));
  node.addEventListener("dragover", (event) => { event.preventDefault(); node.classList.add("over"); });
  node.addEventListener("dragleave", () => node.classList.remove("over"));
  node.addEventListener("drop", (event) => {
    event.preventDefault();
    node.classList.remove("over");
    take(event.dataTransfer.files[0]);
  });
}
