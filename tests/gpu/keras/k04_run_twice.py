"""K04: each run keeps its data and its outputs on the card, so that the second run does not fit. repaired: both are
freed before the next run."""

import gc
import sys

import net

repaired = "repaired" in sys.argv
x, y = net.images(4096)
runs = []
for run in range(3):
    model = net.build()
    data = net.keras.ops.convert_to_tensor(x)
    model.fit(x, y, batch_size=128, epochs=1, verbose=0)
    outputs = [net.keras.Model(model.inputs, model.layers[1].output)(data[i:i + 512]) for i in range(0, 2048, 512)]
    runs.append((model, data, outputs))
    print("run", run + 1)
    if repaired:
        del model, data, outputs
        runs.clear()
        gc.collect()
print("done")
