"""K04: each run keeps its data and its outputs on the card, so that a later run does not fit. repaired: both are
freed before the next run."""

import gc
import sys

import net

repaired = "repaired" in sys.argv
x, y = net.images(4096)
runs = []
for run in range(8):
    model = net.build()
    data = net.keras.ops.convert_to_tensor(x)
    model.fit(x, y, batch_size=128, epochs=1, verbose=0)
    features = net.keras.Model(model.inputs, model.layers[1].output)
    outputs = [net.keras.ops.stop_gradient(features(data[i:i + 256])) for i in range(0, 1024, 256)]
    runs.append((model, data, outputs))
    total = sum(float(net.keras.ops.mean(y)) for y in outputs)  # JAX reports a failed step only here
    print("run", run + 1)
    if repaired:
        del model, features, data, outputs
        runs.clear()
        gc.collect()
print("done")
