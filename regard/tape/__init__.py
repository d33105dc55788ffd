"""See, and change, every attention of a model without touching it.

    with regard.record(model) as tape:
        model(batch)
    tape["decoder.layers.0.cross"].weights     # (B, H, T, S)
    tape.attentions                            # all layers, as Hugging Face's models once returned them
    tape.save("weights.safetensors")

    with regard.change(model, "decoder.layers.*.cross", head=3, weights="zero"):
        model(batch)                           # without the fourth head

What is seen: :class:`regard.Attention`, :class:`regard.MultiHead`, glimpses and every other module that returns an
:class:`regard.Attended`; :func:`regard.attend`; torch's ``nn.MultiheadAttention``, alone and inside ``nn.Transformer``
and its layers; ``F.scaled_dot_product_attention``, through which Hugging Face's models look by default; a softmax whose
result multiplies values, as in code that is written out (Hugging Face's ``attn_implementation="eager"``); weights that
a module returns beside its output; and PyG's ``GATConv`` and ``GATv2Conv``. Forward hooks tell which module is running,
a thread-local ``TorchFunctionMode`` shows the calls of torch's functions; torch itself is not patched, and nothing
stays behind.

======================  ==============================================================
``entries.py``          what is kept: :class:`Look`, :class:`Entry`, :class:`Tape`
``later.py``            weights that are computed when they are read
``watch.py``            which attention of which module is running in this thread
``calls.py``            torch's own functions: their weights, and what weights give
``written_out.py``      a softmax whose result multiplies values
``recording.py``        :func:`record`
``changing.py``         :func:`change`
======================  ==============================================================
"""

from regard.tape.changing import change
from regard.tape.entries import VERSION, Entry, Look, Tape
from regard.tape.recording import record

__all__ = ["VERSION", "Entry", "Look", "Tape", "change", "record"]
