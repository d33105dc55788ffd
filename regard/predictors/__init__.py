"""Trained systems that answer, and show where they looked. One kind of answer, one file.

    model = regard.load("translate-en-es")           # a model that ships with the package, or the folder of a run
    for (best,) in model.predict(["I love coffee."]):
        best.text, best.weights, best.source_words, best.words

A task's ``kind`` names the file. A predictor says what one may ask (``Question``) and answers: ``ask`` gives
:class:`~regard.predictors.answer.Answer`, with text, remarks and pictures. ``regard predict`` prints answers, ``regard
show`` writes their pictures, and the server sends both.
"""
