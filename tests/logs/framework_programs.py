"""Faulty programs that use a framework, for `produce.py`. None of them needs a GPU; some fail because there is none.

Each is (name, modules it needs, cause, other acceptable causes, determinable, files, script). The script runs under
bash with $PY, an interpreter that has the modules.
"""
PROGRAMS = []


def faulty(name, needs, cause, determinable, script, also="", **files):
    PROGRAMS.append((name, needs.split(), cause, also, determinable, {k.replace("__", "."): v for k, v in files.items()}, script))


def python(name, needs, cause, determinable, source, also="", before="", run="$PY train.py"):
    faulty(name, needs, cause, determinable, f"{before}\n{run}\n:\n", also, train__py=source)


# ---- TensorFlow and Keras ----
KERAS = """
import os
import numpy as np
import keras
rng = np.random.default_rng(7)
x = rng.normal(size=(512, 16)).astype("float32")
y = rng.integers(0, 4, 512)
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(4)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
"""
JAX_BACKEND = "export KERAS_BACKEND=jax"
TORCH_BACKEND = "export KERAS_BACKEND=torch"
FIT = "model.fit(x, y, epochs=3, batch_size=64, verbose=2)\n"
python("tf-keras-shape", "tensorflow keras", "script-exception", "yes", KERAS + FIT + "model.fit(x[:, :8], y, verbose=2)\n", "library-bad-argument")
python("tf-keras-label", "tensorflow keras", "script-exception", "yes", KERAS + "y[300] = 9\n" + FIT, "device-assert-index,library-bad-argument")
python("tf-keras-nan", "tensorflow keras", "numeric-divergence", "yes", KERAS + FIT + """
model.compile(keras.optimizers.SGD(1e38), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x, y, epochs=3, batch_size=64, verbose=2, callbacks=[keras.callbacks.TerminateOnNaN()])
""")
python("tf-keras-data", "tensorflow keras", "script-exception", "yes", KERAS + FIT + """
class Rows(keras.utils.PyDataset):
    def __len__(self): return 4
    def __getitem__(self, i):
        if i == 2: raise KeyError("label_17")
        return x[:64], y[:64]
model.fit(Rows(), epochs=2, verbose=2)
""")
python("tf-keras-weights", "tensorflow keras", "script-exception", "yes", KERAS + FIT + """
model.save_weights("w.weights.h5")
keras.Sequential([keras.Input((16,)), keras.layers.Dense(8), keras.layers.Dense(4)]).load_weights("w.weights.h5")
""")
python("tf-keras-disk", "tensorflow keras", "disk-or-quota-full", "yes", KERAS + FIT + """
keras.Sequential([keras.Input((512,)), keras.layers.Dense(2048)]).save("out/model.keras")
""", before="mkdir out; mount -t tmpfs -o size=64k none out || exit 77")
python("tf-check-numerics", "tensorflow", "numeric-divergence", "yes", """
import tensorflow as tf
tf.debugging.enable_check_numerics()
w = tf.Variable([[2.0]])
for step in range(1, 40):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.ones([4, 1]) @ w) ** 4)
    w.assign_sub(0.5 * tape.gradient(loss, w))
    print(f"step {step} loss {loss.numpy():.5g}")
""")
python("tf-gather-index", "tensorflow", "script-exception", "yes", """
import tensorflow as tf
table = tf.Variable(tf.zeros([100, 8]))
for step in range(6):
    print("step", step, float(tf.reduce_sum(tf.nn.embedding_lookup(table, [step, 25 * step]))))
""", "device-assert-index,library-bad-argument")
python("tf-file-missing", "tensorflow", "script-exception", "yes", """
import tensorflow as tf
for row in tf.data.TFRecordDataset(["shards/train-00001.tfrecord"]):
    print(row)
""")
python("tf-generator-raises", "tensorflow", "script-exception", "yes", """
import tensorflow as tf
def rows():
    for i in range(10):
        if i == 6: raise ValueError("row 6 has no label")
        yield float(i)
for step, row in enumerate(tf.data.Dataset.from_generator(rows, output_signature=tf.TensorSpec([], tf.float32))):
    print("step", step, float(row))
""")
python("tf-gpu-wanted", "tensorflow", "no-device-visible", "partly", """
import tensorflow as tf
tf.config.set_soft_device_placement(False)
with tf.device("/GPU:0"):
    print(tf.matmul(tf.ones([8, 8]), tf.ones([8, 8])))
""", "script-exception,invalid-device-ordinal")
python("tf-host-memory", "tensorflow", "script-exception", "partly", """
import tensorflow as tf
for step in range(3): print("step", step)
print(tf.zeros([1 << 20, 1 << 16]).shape)
""", "host-oom-kill")
python("tf-killed", "tensorflow", "killed-by-scheduler-or-user", "no", KERAS + FIT + "os.kill(os.getpid(), 9)\n")
python("tf-aborted", "tensorflow", "host-crash-of-process", "partly", KERAS + FIT + "import ctypes\nctypes.string_at(8)\n")
python("keras-jax-shape", "jax keras", "script-exception", "yes", KERAS + FIT + "model.fit(x[:, :8], y, verbose=2)\n", "library-bad-argument", JAX_BACKEND)
python("keras-jax-nan", "jax keras", "numeric-divergence", "yes", KERAS + 'import jax\njax.config.update("jax_debug_nans", True)\nx[200] = np.inf\n' + FIT,
       "", JAX_BACKEND)
python("keras-torch-shape", "torch keras", "script-exception", "yes", KERAS + FIT + "model.fit(x[:, :8], y, verbose=2)\n", "library-bad-argument", TORCH_BACKEND)
python("keras-torch-label", "torch keras", "script-exception", "yes", KERAS + "y[300] = 9\n" + FIT, "device-assert-index", TORCH_BACKEND)
python("keras-no-backend", "keras", "script-exception", "partly", "import keras\n", "library-not-found", "export KERAS_BACKEND=mxnet")

# ---- JAX ----
python("jax-cuda-wanted", "jax", "no-device-visible", "partly", """
import jax
print(jax.numpy.ones(4).sum())
""", "library-not-found,script-exception,driver-state-lost", "export JAX_PLATFORMS=cuda")
python("jax-tracer", "jax", "script-exception", "yes", """
import jax
@jax.jit
def f(x):
    return x if x > 0 else -x
for step in range(3): print("step", step)
print(f(1.0))
""")
python("jax-nan", "jax", "numeric-divergence", "yes", """
import jax, jax.numpy as jnp
jax.config.update("jax_debug_nans", True)
w = jnp.float32(3.0)
for step in range(30):
    loss, g = jax.value_and_grad(lambda w: jnp.log(w))(w)
    w = w - 2 * g
    print("step", step, "loss", float(loss))
""")
python("jax-shapes", "jax", "script-exception", "yes", "import jax.numpy as jnp\nprint('step 0')\nprint(jnp.ones((4, 5)) @ jnp.ones((6, 7)))\n", "library-bad-argument")
python("jax-host-memory", "jax", "script-exception", "partly", """
import jax.numpy as jnp
for step in range(3): print("step", step)
print(jnp.ones((1 << 20, 1 << 17)).sum())
""", "host-oom-kill,gpu-oom-capacity")

# ---- PyTorch ----
TORCH = """
import os
import torch
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
def step(i, x=None, y=None):
    x = torch.randn(64, 16) if x is None else x
    y = torch.randint(0, 4, (64,)) if y is None else y
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    print(f"step {i} loss {loss.item():.4f}", flush=True)
for i in range(4): step(i)
"""
python("pt-shape", "torch", "script-exception", "yes", TORCH + "step(4, torch.randn(64, 8))\n", "library-bad-argument")
python("pt-dtype", "torch", "script-exception", "yes", TORCH + "step(4, torch.randn(64, 16, dtype=torch.float64))\n", "library-bad-argument")
python("pt-label", "torch", "script-exception", "yes", TORCH + "step(4, None, torch.full((64,), 7))\n", "device-assert-index")
python("pt-backward-twice", "torch", "script-exception", "yes", TORCH + "l = model(torch.randn(2, 16)).sum()\nl.backward()\nl.backward()\n")
python("pt-anomaly", "torch", "numeric-divergence", "yes", TORCH + """
with torch.autograd.set_detect_anomaly(True):
    v = torch.zeros(4, requires_grad=True)
    (torch.sqrt(v) * 0).sum().backward()
""", "script-exception")
python("pt-nan-check", "torch", "numeric-divergence", "yes", TORCH + """
for i in range(4, 40):
    for p in model.parameters(): p.data *= 30
    loss = model(torch.randn(64, 16)).pow(4).mean()
    print(f"step {i} loss {loss.item():.4f}")
    if not torch.isfinite(loss): raise SystemExit("loss is not finite, stopping training")
""")
python("pt-state-dict", "torch", "script-exception", "yes", TORCH + 'model.load_state_dict({"0.weight": torch.zeros(32, 16), "head.weight": torch.zeros(4, 32)})\n')
python("pt-no-checkpoint", "torch", "script-exception", "yes", TORCH + 'torch.load("runs/last.pt")\n')
python("pt-host-memory", "torch", "script-exception", "partly", TORCH + "torch.zeros(1 << 46)\n", "host-oom-kill")
python("pt-disk", "torch", "disk-or-quota-full", "yes", TORCH + 'torch.save(torch.zeros(1 << 20), "out/last.pt")\n',
       "", "mkdir out; mount -t tmpfs -o size=64k none out || exit 77")
python("pt-no-driver", "torch", "no-device-visible", "partly", TORCH + 'model.to("cuda")\n', "stub-or-wrong-libcuda,library-not-found,driver-too-old,driver-state-lost")
python("pt-nccl-no-gpu", "torch", "no-device-visible", "yes", """
import torch.distributed as dist
dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29733", rank=0, world_size=1)
print("ready")
""", "library-not-found")
WORKERS = """
import os, signal
import torch
class Rows(torch.utils.data.Dataset):
    def __len__(self): return 64
    def __getitem__(self, i):
        if i == 40:
            FAULT
        return torch.zeros(4)
if __name__ == "__main__":
    for i, x in enumerate(torch.utils.data.DataLoader(Rows(), 8, num_workers=2)):
        print("batch", i, flush=True)
"""
python("pt-worker-exception", "torch", "script-exception", "yes", WORKERS.replace("FAULT", 'raise OSError("image truncated: img_40.jpg")'))
python("pt-worker-killed", "torch", "killed-by-scheduler-or-user", "no", WORKERS.replace("FAULT", "os.kill(os.getpid(), 9)"))
python("pt-worker-segfault", "torch", "host-crash-of-process", "partly", WORKERS.replace("FAULT", "os.kill(os.getpid(), 11)"))
python("pt-worker-files", "torch", "fd-or-process-limit", "yes", WORKERS.replace("FAULT", 'self.kept = [open("/dev/null") for _ in range(500)]'),
       "", "ulimit -n 128")
RANKS = """
import os, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=__import__("datetime").timedelta(seconds=8))
rank = dist.get_rank()
for step in range(5):
    if rank == 1 and step == 3:
        FAULT
    t = torch.ones(1); dist.all_reduce(t)
    print(f"rank {rank} step {step} sum {t.item()}", flush=True)
dist.destroy_process_group()
"""
RUN = "$PY -m torch.distributed.run --nproc-per-node 2 --master-port 29741 train.py"
python("torchrun-exception", "torch", "script-exception", "yes", RANKS.replace("FAULT", 'raise ValueError("shard 3 of rank 1 is empty")'), run=RUN)
python("torchrun-killed", "torch", "killed-by-scheduler-or-user", "no", RANKS.replace("FAULT", "os.kill(os.getpid(), 9)"), run=RUN)
python("torchrun-segfault", "torch", "host-crash-of-process", "partly", RANKS.replace("FAULT", "os.kill(os.getpid(), 11)"), run=RUN)
python("torchrun-terminated", "torch", "killed-by-scheduler-or-user", "partly", RANKS.replace("FAULT", "os.kill(os.getppid(), 15); time.sleep(5)"), run=RUN)
python("torchrun-port", "torch", "rendezvous-port-clash", "yes", RANKS, run="""
$PY -c 'import socket, time; s = socket.socket(); s.bind(("", 29741)); s.listen(); time.sleep(12)' & sleep 1
""" + RUN)
python("gloo-rank-left", "torch", "peer-died", "partly", RANKS.replace("FAULT", "os._exit(0)"), "script-exception,network-or-ib-fault", run=RUN)
python("gloo-rank-late", "torch", "peer-died", "no", RANKS.replace("FAULT", "time.sleep(20)"), "straggler,host-deadlock,slow-phase-timeout", run=RUN)

# ---- programs on top of PyTorch ----
LIGHTNING = """
import torch, lightning as L
class Net(L.LightningModule):
    def __init__(self): super().__init__(); self.l = torch.nn.Linear(8, 1)
    def training_step(self, b, i):
        loss = (self.l(b[0]) - b[1]).pow(2).mean()
        BODY
        self.log("train_loss", loss, prog_bar=True); return loss
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), 1e-3)
d = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(128, 8), torch.randn(128, 1)), 16)
L.Trainer(max_epochs=3, logger=False, enable_checkpointing=False, OPTIONS).fit(Net(), d)
"""
python("lightning-no-gpu", "lightning torch", "no-device-visible", "yes", LIGHTNING.replace("BODY", "pass").replace("OPTIONS", 'accelerator="gpu"'), "script-exception")
python("lightning-exception", "lightning torch", "script-exception", "yes",
       LIGHTNING.replace("BODY", 'if i == 5: raise RuntimeError("target has 3 channels, expected 1")').replace("OPTIONS", 'accelerator="cpu"'))
python("lightning-nan", "lightning torch", "numeric-divergence", "yes",
       LIGHTNING.replace("BODY", "loss = loss * float('nan') if i == 5 else loss").replace("OPTIONS", 'accelerator="cpu", '
       'callbacks=[L.pytorch.callbacks.EarlyStopping("train_loss", check_on_train_epoch_end=True)]'))
python("lightning-interrupted", "lightning torch", "killed-by-scheduler-or-user", "yes",
       LIGHTNING.replace("BODY", "i == 5 and __import__('os').kill(__import__('os').getpid(), 2)").replace("OPTIONS", 'accelerator="cpu"'))
python("hf-index", "transformers accelerate torch", "script-exception", "yes", """
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
model = BertForSequenceClassification(BertConfig(vocab_size=100, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16))
data = [{"input_ids": torch.randint(0, 100 + (i == 40), (8,)) + 60 * (i == 40), "labels": torch.tensor(i % 2)} for i in range(64)]
args = TrainingArguments("out", num_train_epochs=3, per_device_train_batch_size=8, logging_steps=2, report_to=[], use_cpu=True, save_strategy="no")
Trainer(model=model, args=args, train_dataset=data).train()
""", "device-assert-index")
python("accelerate-exception", "accelerate torch", "script-exception", "yes", TORCH + 'raise FileNotFoundError("data/train.json")\n',
       run="$PY -m accelerate.commands.launch --cpu train.py")
python("accelerate-killed", "accelerate torch", "killed-by-scheduler-or-user", "no", TORCH + "os.kill(os.getpid(), 9)\n",
       run="$PY -m accelerate.commands.launch --cpu train.py")
python("bnb-no-gpu", "bitsandbytes torch", "no-device-visible", "partly", """
import torch, bitsandbytes as bnb
layer = bnb.nn.Linear8bitLt(16, 16, has_fp16_weights=False).to("cuda")
""", "driver-too-old,library-not-found,stub-or-wrong-libcuda,driver-state-lost")

# ---- other libraries ----
python("cupy-no-driver", "cupy", "library-not-found", "partly", "import cupy\nprint(cupy.zeros(4).sum())\n", "no-device-visible,driver-too-old,stub-or-wrong-libcuda")
python("numba-no-driver", "numba numba_cuda", "library-not-found", "partly", """
from numba import cuda
@cuda.jit
def f(a): a[0] = 1
import numpy
f[1, 1](numpy.zeros(4))
""", "no-device-visible,driver-too-old,stub-or-wrong-libcuda")
python("tensorrt-no-driver", "tensorrt", "driver-too-old", "partly", """
import tensorrt as trt
builder = trt.Builder(trt.Logger(trt.Logger.VERBOSE))
print(builder.platform_has_fast_fp16)
""", "no-device-visible,library-not-found,stub-or-wrong-libcuda")
python("paddle-gpu-wanted", "paddle", "script-exception", "partly", "import paddle\npaddle.set_device('gpu')\nprint(paddle.ones([2]))\n", "no-device-visible,library-not-found,library-version-mismatch")
python("paddle-shape", "paddle", "script-exception", "yes", "import paddle\nfor step in range(3): print('step', step)\nprint(paddle.matmul(paddle.ones([4, 5]), paddle.ones([6, 7])))\n", "library-bad-argument")
python("xgboost-labels", "xgboost", "script-exception", "yes", """
import numpy as np, xgboost as xgb
x = np.random.default_rng(1).normal(size=(100, 4))
xgb.train({"objective": "multi:softmax", "num_class": 3}, xgb.DMatrix(x, np.arange(100) % 5), 4)
""", "library-bad-argument")
python("spacy-gpu-wanted", "spacy", "script-exception", "partly", "import spacy\nspacy.require_gpu()\n", "no-device-visible,library-not-found")
python("ray-task-exception", "ray", "script-exception", "yes", """
import ray
ray.init(num_cpus=2, include_dashboard=False, object_store_memory=80_000_000)
@ray.remote
def work(i):
    if i == 3: raise KeyError("column_3")
    return i
print("results", ray.get([work.remote(i) for i in range(6)]))
""")
python("ray-worker-killed", "ray", "killed-by-scheduler-or-user", "no", """
import ray, os
ray.init(num_cpus=2, include_dashboard=False, object_store_memory=80_000_000)
@ray.remote(max_retries=0)
def work(i):
    if i == 3: os.kill(os.getpid(), 9)
    return i
print("results", ray.get([work.remote(i) for i in range(6)]))
""")
python("hydra-exception", "hydra", "script-exception", "yes", """
import hydra
@hydra.main(version_base=None, config_path=None)
def main(config):
    for step in range(3): print("step", step)
    print(config.optimizer.rate)
if __name__ == "__main__": main()
""", run="$PY train.py +model=small")
faulty("pytest-fails", "pytest", "script-exception", "partly", "$PY -m pytest -q test_model.py\n:\n", test_model__py="""
def test_loss(): assert abs(0.75 - 0.5) < 0.01, "loss differs from the reference"
def test_shape(): assert (2, 3) == (2, 3)
""")
faulty("notebook-exception", "nbconvert ipykernel", "script-exception", "yes", """
$PY - <<'E'
import nbformat
cells = [nbformat.v4.new_code_cell("for step in range(3): print('step', step, 'loss', 1 / (step + 1))"), nbformat.v4.new_code_cell("labels = {}\\nlabels['cat']")]
nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "p", "language": "python"}}), "n.ipynb")
E
$PY -m jupyter nbconvert --to notebook --execute n.ipynb --output done.ipynb
:""")
faulty("gunicorn-worker-killed", "gunicorn flask", "killed-by-scheduler-or-user", "no", """
$PY -m gunicorn -w 1 -b 127.0.0.1:8735 app:app & server=$!; sleep 3
curl -s -o /dev/null http://127.0.0.1:8735/; sleep 1; kill $server; wait $server; :""", "host-oom-kill",
       app__py="import os\nfrom flask import Flask\napp = Flask(__name__)\n@app.get('/')\ndef root(): os.kill(os.getpid(), 9)\n")
faulty("gunicorn-boot", "gunicorn flask", "script-exception", "yes", "timeout 10 $PY -m gunicorn -w 1 -b 127.0.0.1:8736 app:app\n:\n",
       app__py="from flask import Flask\napp = Flask(__name__)\nmodel = open('weights.bin')\n")
MPI = "mpirun --allow-run-as-root --oversubscribe OPTIONS -n 3 bash rank.sh\n:\n"
STEPS = 'for s in 1 2 3 4 5; do echo "rank $OMPI_COMM_WORLD_RANK step $s"; sleep 0.1; [ $OMPI_COMM_WORLD_RANK$s = 13 ] && FAULT; done\n'
faulty("mpirun-segfault", "json", "host-crash-of-process", "partly", MPI.replace("OPTIONS", ""), rank__sh=STEPS.replace("FAULT", "kill -SEGV $$"))
faulty("mpirun-killed", "json", "killed-by-scheduler-or-user", "no", MPI.replace("OPTIONS", "--tag-output"), rank__sh=STEPS.replace("FAULT", "kill -KILL $$"))
faulty("mpirun-exit", "json", "script-exception", "yes", MPI.replace("OPTIONS", ""),
       rank__sh=STEPS.replace("FAULT", "exec python3 -c 'raise RuntimeError(\"no data for this rank\")'"))
