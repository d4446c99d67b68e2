"""K03: fit() with a batch that does not fit the card. repaired: a smaller batch."""

import sys

import net

batch = 64 if "repaired" in sys.argv else 8192
model = net.build()
x, y = net.images(max(batch, 512))
model.fit(x, y, batch_size=batch, epochs=1, verbose=0)
print("done")
