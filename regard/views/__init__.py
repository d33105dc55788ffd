"""Pictures of attention. One kind of picture is one file:

    from regard.views import alignment

    alignment.figure(weights, rows, columns)        # matplotlib: PNG, SVG, PDF
    print(alignment.terminal(weights, rows, columns))
    alignment.view(weights, rows, columns)          # for the interactive page

and :mod:`regard.views.page` joins views of any kind into one HTML file that needs no network.
"""
