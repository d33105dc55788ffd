// Tokens as people see them.

const NAMED = { "": "∅", "\n": "↵", "\t": "⇥", "\u00a0": "␣" };

// The token with nothing in it that would be obeyed instead of shown; the same rules as in regard/views/text.py.
export function visible(token) {
  if (token && !token.replaceAll(" ", "")) return "␣".repeat(token.length);
  return NAMED[token] ?? [...token].map(visibleCharacter).join("");
}

function visibleCharacter(character) {
  if (character in NAMED) return NAMED[character];
  const shaping = character === "\u200c" || character === "\u200d";
  if (shaping || !/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u.test(character)) return character;
  return `‹${character.codePointAt(0).toString(16).toUpperCase().padStart(2, "0")}›`;
}

const RIGHT_TO_LEFT = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;

// Does most of this text run from right to left?
export function direction(tokens) {
  let balance = 0;
  for (const token of tokens) {
    if (RIGHT_TO_LEFT.test(token)) balance += 1;
    else if (/\p{L}/u.test(token)) balance -= 1;
  }
  return balance > 0 ? "rtl" : "ltr";
}

export function percent(share) {
  const hundred = 100 * share;
  if (hundred >= 9.95 || hundred === 0) return `${Math.round(hundred)} %`;
  return hundred < 0.05 ? "< 0.1 %" : `${hundred.toFixed(1)} %`;
}

export function bytes(size) {
  if (size < 1000) return `${size} bytes`;
  return size < 999_500 ? `${Math.round(size / 1000)} kB` : `${(size / 1e6).toFixed(1)} MB`;
}
