"""How every figure looks."""
# Okabe and Ito 2008: told apart by color-blind readers
BLUE, ORANGE, GREEN, GREY, BLACK = "#0072b2", "#d55e00", "#009e73", "#8c8c8c", "#1a1a1a"
STYLE = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 11, "axes.titleweight": "bold",
         "axes.grid": True, "grid.color": "#e6e6e6", "axes.axisbelow": True, "text.parse_math": False, "figure.facecolor": "white"}
