"""K01: the outputs of each step are kept in a list, on the card. repaired: only their sums are, as numbers."""

import sys

import net

repaired = "repaired" in sys.argv
model = net.build()
x, _ = net.images(128)
features = net.keras.Model(model.inputs, model.layers[3].output)
kept = []
for step in range(120):
    y = features(x)
    total = float(net.keras.ops.sum(y))  # JAX reports a failed step only when a result is read
    kept.append(total if repaired else y)
print("done")
