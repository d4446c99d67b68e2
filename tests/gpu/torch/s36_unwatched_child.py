"""S36: the parent never looks at its child's exit status, and the child dies of the card. repaired: the child fits."""

import subprocess
import sys

if len(sys.argv) > 1 and sys.argv[1] == "child":
    import torch
    import cnn
    trainer = cnn.Trainer()
    trainer.step(*cnn.batch(int(sys.argv[2])))
    torch.cuda.synchronize()
    sys.exit(0)
repaired = len(sys.argv) > 1 and sys.argv[1] == "repaired"
subprocess.Popen([sys.executable, __file__, "child", "640" if repaired else "12800"], stderr=subprocess.DEVNULL).wait()
print("all workers are done")
