"""K02: one label is larger than the number of classes. repaired: all labels are valid."""

import sys

import net

model = net.build()
x, y = net.images(256)
if "repaired" not in sys.argv:
    y[200] = net.CLASSES + 7
model.fit(x, y, batch_size=64, epochs=2, verbose=0)
print("done")
