"""Healthy programs and jobs whose real output `produce.py` keeps: frameworks, servers, builds, tests, packages.

Each is (name, modules it needs, what is special about it, files, script). The script runs under bash with $PY, an
interpreter that has the modules. Every program ends well, although its output may contain alarming words.
"""
PROGRAMS = []


def healthy(name, needs, what, script, **files):
    PROGRAMS.append((name, needs.split(), what, {k.replace("__", "."): v for k, v in files.items()}, script))


def python(name, needs, what, source, before="", after=""):
    healthy(name, needs, what, f"{before}\n$PY train.py\n{after}\n", train__py=source)


KERAS = """
import os, sys
import numpy as np
import keras
rng = np.random.default_rng(7)
x = rng.normal(size=(2048, 28, 28, 1)).astype("float32")
y = rng.integers(0, 10, 2048)
def build():
    return keras.Sequential([keras.Input((28, 28, 1)), keras.layers.Conv2D(8, 3, activation="relu"), keras.layers.MaxPooling2D(),
                             keras.layers.Flatten(), keras.layers.Dense(10)])
model = build()
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
"""
python("keras3-tf-fit", "tensorflow keras", "Keras 3 on TensorFlow, bars",
       KERAS + "model.summary()\nmodel.fit(x, y, epochs=3, batch_size=256, validation_split=0.1)\n")
python("keras3-tf-lines", "tensorflow keras", "Keras 3 with verbose=2, a line for each epoch",
       KERAS + "model.fit(x, y, epochs=5, batch_size=256, validation_split=0.1, verbose=2)\nprint(model.evaluate(x, y, verbose=0))\n")
python("keras3-early-stop", "tensorflow keras", "early stopping, a checkpoint for each better epoch, a lower learning rate",
       KERAS + """
model.fit(x, y, epochs=30, batch_size=256, validation_split=0.2, verbose=2, callbacks=[
    keras.callbacks.EarlyStopping(patience=2, verbose=1, restore_best_weights=True),
    keras.callbacks.ReduceLROnPlateau(patience=1, verbose=1),
    keras.callbacks.ModelCheckpoint("best.keras", save_best_only=True, verbose=1)])
print("best model restored, test:", model.evaluate(x, y, verbose=0))
""")
python("keras3-jax-fit", "jax keras", "Keras 3 on JAX", KERAS + "model.fit(x, y, epochs=3, batch_size=256)\n", before="export KERAS_BACKEND=jax")
python("keras3-torch-fit", "torch keras", "Keras 3 on PyTorch", KERAS + "model.fit(x, y, epochs=2, batch_size=256)\n",
       before="export KERAS_BACKEND=torch")
python("keras3-predict", "tensorflow keras", "inference only", KERAS + """
for part in range(4):
    print("part", part, model.predict(x[part * 512:(part + 1) * 512]).argmax(1)[:5])
""")
python("keras3-mixed", "tensorflow keras", "mixed precision on a CPU, with its warning", KERAS.replace("rng =", 'keras.mixed_precision.set_global_policy("mixed_float16")\nrng =')
       + "model.fit(x, y, epochs=3, batch_size=256, verbose=2)\n")
python("tf-custom-loop", "tensorflow", "a loop of its own, with step and loss", """
import tensorflow as tf
w = tf.Variable(tf.random.normal([64, 10], seed=1))
data = tf.data.Dataset.from_tensor_slices((tf.random.normal([640, 64], seed=2), tf.random.uniform([640], 0, 10, tf.int32, seed=3))).batch(64).repeat(4)
for step, (x, y) in enumerate(data):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, x @ w))
    w.assign_sub(0.1 * tape.gradient(loss, w))
    print(f"step {step:3d} loss {loss:.4f}")
print("saved to", tf.train.Checkpoint(w=w).save("out/ckpt"))
""")
python("tf-generator-end", "tensorflow", "OUT_OF_RANGE: End of sequence, which is how a dataset ends", """
import tensorflow as tf
def rows():
    for i in range(10):
        yield tf.fill([8], float(i))
data = tf.data.Dataset.from_generator(rows, output_signature=tf.TensorSpec([8], tf.float32))
iterator = iter(data)
done = 0
while True:
    try:
        row = next(iterator)
    except StopIteration:
        print("end of data after", done, "rows")
        break
    except tf.errors.OutOfRangeError as problem:
        print("end of data:", problem.message)
        break
    done += 1
    print("row", done, float(tf.reduce_sum(row)))
print("finished")
""")
python("tf-mirrored", "tensorflow", "MirroredStrategy on one CPU, with its warnings", """
import tensorflow as tf
strategy = tf.distribute.MirroredStrategy()
print("replicas:", strategy.num_replicas_in_sync)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((16,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
model.fit(tf.random.normal([512, 16]), tf.random.normal([512, 1]), epochs=4, batch_size=64, verbose=2)
""")
python("tf-retracing", "tensorflow", "a function that is traced again and again, with the warning", """
import tensorflow as tf
@tf.function
def double(x):
    return x * 2
for step in range(12):
    print("step", step, int(double(step)))
print("done")
""")
python("tf-check-numerics", "tensorflow", "numeric checks that are on and find nothing", """
import tensorflow as tf
tf.debugging.enable_check_numerics()
w = tf.Variable([[0.5]])
for step in range(1, 9):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.ones([4, 1]) @ w - 3.0) ** 2)
    w.assign_sub(0.1 * tape.gradient(loss, w))
    print(f"Step {step}/8 - loss: {loss.numpy():.5f}")
print("Training completed.")
""")
python("jax-train", "jax", "JAX without a GPU, a loop with step and loss", """
import jax, jax.numpy as jnp, logging
logging.basicConfig(level=logging.INFO)
key = jax.random.key(0)
x = jax.random.normal(key, (512, 16)); y = x @ jnp.arange(16.0)
@jax.jit
def step(w):
    loss, grad = jax.value_and_grad(lambda w: jnp.mean((x @ w - y) ** 2))(w)
    return w - 0.1 * grad, loss
w = jnp.zeros(16)
for i in range(20):
    w, loss = step(w)
    logging.info("step %d loss %.5f", i, loss)
logging.info("finished, devices: %s", jax.devices())
""")
python("jax-four-devices", "jax", "four devices of a CPU, a compiled program's log", """
import jax, jax.numpy as jnp
jax.config.update("jax_log_compiles", True)
f = jax.pmap(lambda a: jax.lax.psum(a * 2, "i"), "i")
for step in range(5):
    print("step", step, f(jnp.arange(4.0) + step))
print("all steps done")
""", before="export XLA_FLAGS=--xla_force_host_platform_device_count=4")
python("flax-optax", "flax optax jax", "Flax and Optax, with a table of parameters", """
import jax, jax.numpy as jnp, optax
from flax import linen as nn
class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(1)(nn.relu(nn.Dense(32)(x)))
net = Net(); x = jax.random.normal(jax.random.key(1), (256, 8)); y = jnp.sum(x, 1, keepdims=True)
print(nn.tabulate(net, jax.random.key(0))(x))
params = net.init(jax.random.key(0), x); tx = optax.adam(1e-2); state = tx.init(params)
@jax.jit
def step(params, state):
    loss, g = jax.value_and_grad(lambda p: jnp.mean((net.apply(p, x) - y) ** 2))(params)
    up, state = tx.update(g, state)
    return optax.apply_updates(params, up), state, loss
for epoch in range(1, 11):
    params, state, loss = step(params, state)
    print(f"[epoch {epoch:02d}] train_loss={loss:.4f} grad_errors=0")
""")
python("xgboost-rounds", "xgboost", "rounds of XGBoost with a metric that is called error", """
import numpy as np, xgboost as xgb
rng = np.random.default_rng(1); x = rng.normal(size=(4000, 20)); y = (x[:, 0] + x[:, 1] ** 2 > 1).astype(int)
d = xgb.DMatrix(x[:3000], y[:3000]); v = xgb.DMatrix(x[3000:], y[3000:])
xgb.train({"objective": "binary:logistic", "eval_metric": ["error", "logloss"]}, d, 40, [(d, "train"), (v, "valid")], early_stopping_rounds=5)
""")
python("xgboost-no-gpu", "xgboost", "XGBoost asked for a GPU, found none, said so and went on", """
import numpy as np, xgboost as xgb
rng = np.random.default_rng(1); x = rng.normal(size=(2000, 20)); y = (x[:, 0] > 0).astype(int)
d = xgb.DMatrix(x, y)
xgb.train({"objective": "binary:logistic", "device": "cuda"}, d, 10, [(d, "train")])
print("model trained")
""")
python("lightgbm-rounds", "lightgbm", "LightGBM: its warnings, its rounds", """
import numpy as np, lightgbm as lgb
rng = np.random.default_rng(1); x = rng.normal(size=(3000, 10)); y = (x[:, 0] > 0).astype(int)
d = lgb.Dataset(x[:2000], y[:2000]); v = lgb.Dataset(x[2000:], y[2000:], reference=d)
lgb.train({"objective": "binary", "metric": "binary_error", "min_data_in_leaf": 400}, d, 60, valid_sets=[v], callbacks=[lgb.log_evaluation(5), lgb.early_stopping(10)])
""")
python("catboost-iterations", "catboost", "CatBoost's iterations and its best one", """
import numpy as np, catboost
rng = np.random.default_rng(1); x = rng.normal(size=(2000, 10)); y = (x[:, 0] > 0).astype(int)
catboost.CatBoostClassifier(iterations=60, od_type="Iter", od_wait=5).fit(x[:1500], y[:1500], eval_set=(x[1500:], y[1500:]))
""")
python("sklearn-search", "sklearn", "a grid search with fits that fail, as the library says, and go on", """
import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.linear_model import LogisticRegression
rng = np.random.default_rng(1); x = rng.normal(size=(300, 5)); y = (x[:, 0] > 0).astype(int)
g = GridSearchCV(LogisticRegression(max_iter=3), {"C": [0.01, 1, 100], "solver": ["lbfgs", "liblinear", "sag"]}, cv=2, verbose=3).fit(x, y)
print("best:", g.best_params_, g.best_score_)
""")
python("joblib-workers", "joblib", "processes of joblib and their progress", """
from joblib import Parallel, delayed
print(sum(Parallel(n_jobs=2, verbose=10)(delayed(pow)(i, 2) for i in range(40))))
""")
PYTEST = """
import warnings, pytest
@pytest.mark.parametrize("case", ["out_of_memory", "illegal_access", "nan_loss", "segfault", "ecc_error"])
def test_reports(case):
    print("testing the report of", case)
def test_raises_out_of_memory():
    with pytest.raises(RuntimeError, match="CUDA out of memory"):
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
@pytest.mark.skip(reason="no CUDA device")
def test_on_gpu(): pass
@pytest.mark.xfail(reason="known: cuDNN error on old drivers")
def test_known(): assert False
def test_warns(): warnings.warn("CUDA initialization: no NVIDIA driver on your system")
"""
healthy("pytest-verbose", "pytest", "a test suite whose tests are named after faults", "$PY -m pytest -v -rA test_faults.py\n", test_faults__py=PYTEST)
healthy("pytest-quiet", "pytest", "the same suite, one line", "$PY -m pytest -q test_faults.py\n", test_faults__py=PYTEST)
healthy("pytest-workers", "pytest xdist", "the same suite in two workers", "$PY -m pytest -n 2 -v test_faults.py\n", test_faults__py=PYTEST)
healthy("pytest-coverage", "pytest coverage", "coverage of a suite", "$PY -m coverage run -m pytest -q test_faults.py && $PY -m coverage report\n", test_faults__py=PYTEST)
healthy("unittest-verbose", "json", "unittest with an expected failure", "$PY -m unittest -v test_more\n", test_more__py="""
import unittest
class Errors(unittest.TestCase):
    def test_abort_is_reported(self): pass
    @unittest.expectedFailure
    def test_cuda_error(self): self.fail("CUDA error: unspecified launch failure")
    @unittest.skip("needs two GPUs")
    def test_peer_died(self): pass
""")
healthy("static-checks", "ruff mypy black", "linters and type checks that pass", """
$PY -m ruff check errors.py; $PY -m mypy --strict errors.py; $PY -m black --check errors.py""",
        errors__py='"""Errors."""\n\n\nclass CudaError(Exception):\n    """Fatal."""\n')
healthy("pip-install", "pip", "pip installs, with what it uninstalls before", """
$PY -m venv env; env/bin/pip install --disable-pip-version-check 'six<1.16' 'tqdm<4.60' 2>&1 | grep -v 'Looking in indexes'
env/bin/pip install --disable-pip-version-check -U six tqdm 2>&1 | grep -v 'Looking in indexes'""")
healthy("pip-conflict", "pip", "pip's resolver says ERROR about a package nobody uses, and the job goes on", """
$PY -m venv env; env/bin/pip install -q --disable-pip-version-check --no-deps keras==3.4.0 tensorboard==2.15.0 2>&1 | grep -v indexes
env/bin/pip install --disable-pip-version-check 'numpy<2' 'protobuf<4' 2>&1 | grep -v 'Looking in indexes'
env/bin/python -c 'import numpy
for step in range(5): print("step", step, "loss", 1 / (1 + step))
print("training finished")'""")
healthy("gcc-warnings", "json", "a build with warnings and files that are named after faults", """
for f in error fatal_abort oom_handler; do echo "gcc -Wall -O2 -c $f.c"; printf 'int %s(int a) { int unused_error; if (a = 1) return 2; }\n' $f >$f.c; gcc -Wall -O2 -c $f.c; done
echo 'ar rcs libfaults.a *.o'; ar rcs libfaults.a *.o; echo 'make: Nothing to be done for `all`.'""")
healthy("cmake-ninja", "cmake", "CMake's checks, of which some fail as they should", """
$PY -m cmake -S . -B b 2>&1; $PY -m cmake --build b 2>&1; (cd b && ctest --output-on-failure 2>/dev/null || ./app)""",
        CMakeLists__txt="""cmake_minimum_required(VERSION 3.18)
project(app C)
include(CheckFunctionExists)
include(CheckIncludeFile)
check_function_exists(cuInit HAVE_CUINIT)
check_include_file(cuda.h HAVE_CUDA_H)
find_package(CUDAToolkit QUIET)
find_package(Threads)
add_executable(app app.c)
enable_testing()
add_test(NAME handles_out_of_memory COMMAND app)
""", app__c="#include <stdio.h>\nint main(void) { puts(\"0 errors\"); return 0; }\n")
healthy("retry-loop", "json", "a download that fails twice and works then", """
for n in 1 2 3; do
  echo "attempt $n"
  if [ $n -lt 3 ]; then curl -sS --max-time 2 -o data.bin http://127.0.0.1:9/data.bin || { echo "download failed, retrying in 1 s"; continue; }; fi
  echo "ok"; break
done
for epoch in 1 2 3 4; do echo "epoch $epoch/4 loss 0.$((90 - epoch * 7))"; done
echo "Training complete"; echo "exit code: 0" """)
healthy("shell-trace", "json", "bash -x", """set -x
for i in 1 2 3; do echo "step $i of 3 loss 0.$((9 - i))"; done
grep -c error empty.txt || true
test -e core.1 || echo 'no core file'
echo finished""", empty__txt="")
healthy("http-server", "json", "a server that is asked, and answers 404 too; stopped with Ctrl-C", """
echo hello >index.html; $PY -u -m http.server 8731 --bind 127.0.0.1 & server=$!; sleep 1
for p in / /index.html /favicon.ico / /index.html; do curl -s -o /dev/null http://127.0.0.1:8731$p; done
kill $server; wait $server 2>/dev/null; echo "server stopped" """)
healthy("uvicorn", "uvicorn fastapi", "a FastAPI service: requests, validation errors, a graceful end", """
$PY -m uvicorn app:app --port 8732 & server=$!; sleep 4
for i in 1 2 3 4; do curl -s -o /dev/null http://127.0.0.1:8732/predict/$i; done
curl -s -o /dev/null http://127.0.0.1:8732/predict/x; curl -s -o /dev/null http://127.0.0.1:8732/predict/5
kill -INT $server; wait $server; :""", app__py="from fastapi import FastAPI\napp = FastAPI()\n@app.get('/predict/{n}')\ndef predict(n: int):\n    return {'label': n}\n")
healthy("gunicorn", "gunicorn flask", "gunicorn with two workers, and its end", """
$PY -m gunicorn -w 2 -b 127.0.0.1:8733 --access-logfile - app:app & server=$!; sleep 3
for i in 1 2 3 4 5 6; do curl -s -o /dev/null http://127.0.0.1:8733/; done
kill -TERM $server; wait $server; :""", app__py="from flask import Flask\napp = Flask(__name__)\n@app.get('/')\ndef root(): return 'ok'\n")
healthy("flask-dev", "flask", "Flask's development server", """
$PY -m flask --app app run --port 8734 & server=$!; sleep 3
for p in / / /missing /; do curl -s -o /dev/null http://127.0.0.1:8734$p; done
kill $server; wait $server; :""", app__py="from flask import Flask\napp = Flask(__name__)\n@app.get('/')\ndef root(): return 'ok'\n")
python("optuna-study", "optuna sklearn", "a study with trials that are pruned and one that fails and is caught", """
import optuna
def objective(trial):
    x = trial.suggest_float("x", -2, 2)
    if trial.number == 2:
        raise ValueError("learning rate too large: loss is nan")
    for step in range(5):
        trial.report((x - 1) ** 2 / (step + 1), step)
        if trial.number > 3 and trial.should_prune():
            raise optuna.TrialPruned()
    return (x - 1) ** 2
study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))
study.optimize(objective, n_trials=12, catch=(ValueError,))
print("best value", study.best_value, "in", len(study.trials), "trials")
""")
python("hydra-sweep", "hydra", "Hydra's multirun", """
import hydra, logging
log = logging.getLogger(__name__)
@hydra.main(version_base=None, config_path=None)
def main(config):
    for epoch in range(3):
        log.info("epoch %d loss %.3f", epoch, 1 / (epoch + 1))
main()
""".replace("main()\n", "main()\n"), before="export HYDRA_FULL_ERROR=1; set -- ", after="$PY train.py --multirun +lr=0.1,0.01")
python("wandb-offline", "wandb", "Weights & Biases without a network", """
import wandb
run = wandb.init(mode="offline", project="p", dir=".")
for step in range(10):
    wandb.log({"loss": 1 / (step + 1), "error_rate": 0.1})
    print("step", step, "loss", 1 / (step + 1))
run.finish()
""")
python("mlflow-runs", "mlflow", "MLflow: tables are created, runs are logged", """
import mlflow, logging
logging.basicConfig(level=logging.INFO)
mlflow.set_tracking_uri("sqlite:///m.db")
with mlflow.start_run():
    for step in range(5):
        mlflow.log_metric("loss", 1 / (step + 1), step)
        print("step", step, "loss", round(1 / (step + 1), 3))
print("run finished")
""")
python("ray-tasks", "ray", "Ray on one machine: tasks, one that is retried", """
import ray, os
ray.init(num_cpus=2, include_dashboard=False, object_store_memory=80_000_000)
@ray.remote(max_retries=2, retry_exceptions=True)
def work(i, counter="n"):
    path = f"once{i}"
    if i == 3 and not os.path.exists(path):
        open(path, "w").close()
        raise ConnectionError("first attempt")
    print("task", i, "done")
    return i
print("results", ray.get([work.remote(i) for i in range(6)]))
ray.shutdown()
print("all tasks finished")
""")
python("dask-cluster", "distributed", "a Dask cluster with its workers started and closed", """
import logging
from distributed import Client
if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    with Client(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=logging.INFO) as client:
        for step, value in enumerate(client.gather(client.map(lambda i: i * i, range(8)))):
            print("step", step, "value", value)
    print("done")
""")
python("spacy-train", "spacy", "spaCy's table of a training", """
import spacy, random
from spacy.training import Example
nlp = spacy.blank("en"); cat = nlp.add_pipe("textcat"); cat.add_label("ERROR"); cat.add_label("OK")
data = [("cuda error out of memory", {"cats": {"ERROR": 1.0, "OK": 0.0}}), ("all fine today", {"cats": {"ERROR": 0.0, "OK": 1.0}})] * 16
optimizer = nlp.initialize(lambda: [Example.from_dict(nlp.make_doc(t), a) for t, a in data])
print("E    #       LOSS TEXTCAT  SCORE"); print("---  ------  ------------  ------")
for epoch in range(8):
    losses = {}
    nlp.update([Example.from_dict(nlp.make_doc(t), a) for t, a in data], sgd=optimizer, losses=losses)
    print(f"{epoch:3}  {epoch * 32:6}  {losses['textcat']:12.4f}    {1 - losses['textcat']:.2f}")
print("\\u2714 Saved pipeline to output directory")
""")
python("paddle-fit", "paddle", "Paddle's steps", """
import paddle
model = paddle.Model(paddle.nn.Sequential(paddle.nn.Linear(16, 32), paddle.nn.ReLU(), paddle.nn.Linear(32, 2)))
model.prepare(paddle.optimizer.Adam(parameters=model.parameters()), paddle.nn.CrossEntropyLoss(), paddle.metric.Accuracy())
data = paddle.io.TensorDataset([paddle.randn([256, 16]), paddle.randint(0, 2, [256, 1])])
model.fit(data, epochs=3, batch_size=32, verbose=2, log_freq=2)
""")
healthy("luigi-pipeline", "luigi", "a pipeline of Luigi", "$PY -m luigi --module tasks Train --local-scheduler\n", tasks__py="""
import luigi
class Data(luigi.Task):
    def output(self): return luigi.LocalTarget("data.txt")
    def run(self):
        with self.output().open("w") as f: f.write("1")
class Train(luigi.Task):
    def requires(self): return Data()
    def output(self): return luigi.LocalTarget("model.txt")
    def run(self):
        for epoch in range(3): print("epoch", epoch, "loss", 1 / (epoch + 1))
        with self.output().open("w") as f: f.write("1")
""")
healthy("notebook-run", "nbconvert ipykernel", "a notebook that is run from a shell", """
$PY - <<'E'
import nbformat
cells = [nbformat.v4.new_code_cell("for step in range(6): print('step', step, 'loss', 1 / (step + 1))"), nbformat.v4.new_code_cell("print('finished')")]
nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "p", "language": "python"}}), "n.ipynb")
E
$PY -m jupyter nbconvert --to notebook --execute n.ipynb --output done.ipynb; $PY -m jupyter nbconvert --to script --stdout done.ipynb >/dev/null; echo "exit code $?" """)
healthy("mpirun-steps", "json", "mpirun of three ranks, without names of ranks", """
mpirun --allow-run-as-root --oversubscribe -n 3 bash -c 'for s in 1 2 3 4; do echo "rank $OMPI_COMM_WORLD_RANK step $s/4 loss 0.$((9 - s))"; sleep 0.1; done; echo "rank $OMPI_COMM_WORLD_RANK finished"'""")
healthy("mpirun-stamped", "json", "mpirun with time stamps and tags", """
mpirun --allow-run-as-root --oversubscribe --timestamp-output --tag-output -n 2 bash -c 'for s in 1 2 3 4; do echo "step $s loss 0.$((9 - s))"; sleep 0.1; done'""")
healthy("tar-and-sync", "json", "files that are packed and copied before a training", """
mkdir -p a b; for i in 1 2 3 4; do echo $i >a/error_$i.txt; done
tar -cvf a.tar a; rsync -av a/ b/ | sed 's/bytes.sec/B\\/s/'; sha256sum -c <(sha256sum a/*); for e in 1 2 3; do echo "Epoch [$e/3], Loss: 0.$((8 - e))"; done; echo Done.""")
healthy("git-history", "json", "git, with commits whose words alarm", """
git init -q .; git config user.email a@example.org; git config user.name a
for m in 'Fix CUDA out of memory in validation' 'Revert "Fix segfault"' 'Handle SIGKILL of workers'; do echo "$m" >>f; git add f; git commit -m "$m"; done; git log --oneline | cut -c9-; git status""")
python("logging-levels", "json", "Python's logging: errors of single samples, and a run that goes on", """
import logging
logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
log = logging.getLogger("data")
for step in range(12):
    if step in (3, 7):
        try:
            int("x")
        except ValueError:
            log.exception("sample %d is broken, skipped", step)
    log.info("step %d/12 loss %.4f", step, 2 / (step + 1))
log.info("training finished")
""")
python("tqdm-nested", "tqdm", "nested bars of tqdm", """
from tqdm import tqdm, trange
import time
for epoch in trange(3, desc="Epoch"):
    bar = tqdm(range(40), desc="Batch", leave=False)
    for i in bar:
        time.sleep(0.005); bar.set_postfix(loss=1 / (i + 1 + epoch), nan=0)
print("Finished training")
""")
python("warnings-many", "numpy", "NumPy's warnings of overflow and division in a metric nobody uses", """
import numpy as np
for epoch in range(1, 7):
    np.float32(3e38) * np.float32(10); np.array([0.0]) / np.array([0.0])
    print(f"Epoch {epoch}/6: train loss {1 / epoch:.4f}, val loss {1.2 / epoch:.4f}")
print("Best epoch: 6")
""")
python("torch-cpu", "torch", "PyTorch without a driver, with its warning", """
import torch
print("cuda available:", torch.cuda.is_available())
model = torch.nn.Linear(32, 2); optimizer = torch.optim.SGD(model.parameters(), 0.1)
for epoch in range(8):
    loss = torch.nn.functional.cross_entropy(model(torch.randn(64, 32)), torch.randint(0, 2, (64,)))
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    print(f"Train Epoch: {epoch} [{epoch * 64}/512 ({epoch * 100 / 8:.0f}%)]\\tLoss: {loss.item():.6f}")
""")
python("torch-loader-workers", "torch", "a DataLoader with workers, and a scaler that is disabled", """
import torch
if __name__ == "__main__":
    scaler = torch.cuda.amp.GradScaler()
    data = torch.utils.data.TensorDataset(torch.randn(256, 8), torch.randn(256, 1))
    for epoch in range(3):
        for i, (x, y) in enumerate(torch.utils.data.DataLoader(data, 32, num_workers=2, pin_memory=True)):
            print(f"epoch {epoch} iter {i} loss {((x.sum(1, keepdim=True) - y) ** 2).mean():.3f}")
    print("done")
""")
healthy("torchrun-gloo", "torch", "torchrun with two ranks on a CPU", "$PY -m torch.distributed.run --nproc-per-node 2 --master-port 29712 train.py\n", train__py="""
import torch, torch.distributed as dist
dist.init_process_group("gloo")
for step in range(5):
    t = torch.ones(1) * (step + dist.get_rank()); dist.all_reduce(t)
    print(f"rank {dist.get_rank()} step {step} sum {t.item()}", flush=True)
dist.barrier()
dist.destroy_process_group()
""")
python("lightning-cpu", "lightning torch", "Lightning without a GPU, with its advice", """
import torch, lightning as L
class Net(L.LightningModule):
    def __init__(self): super().__init__(); self.l = torch.nn.Linear(8, 1)
    def training_step(self, b, i): loss = (self.l(b[0]) - b[1]).pow(2).mean(); self.log("train_loss", loss, prog_bar=True); return loss
    def validation_step(self, b, i): self.log("val_error", (self.l(b[0]) - b[1]).abs().mean(), prog_bar=True)
    def configure_optimizers(self): return torch.optim.Adam(self.parameters())
d = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(128, 8), torch.randn(128, 1)), 16)
L.Trainer(max_epochs=3, logger=False, enable_checkpointing=False, accelerator="cpu").fit(Net(), d, d)
""")
python("lightning-lr-find", "lightning torch", "Lightning's fast_dev_run", """
import torch, lightning as L
from lightning.pytorch.demos.boring_classes import BoringModel
L.Trainer(fast_dev_run=3, accelerator="cpu").fit(BoringModel())
print("dev run passed")
""")
python("hf-trainer-cpu", "transformers accelerate torch", "HF Trainer with a model of its own size", """
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
model = BertForSequenceClassification(BertConfig(vocab_size=100, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16))
data = [{"input_ids": torch.randint(0, 100, (8,)), "labels": torch.tensor(i % 2)} for i in range(64)]
args = TrainingArguments("out", num_train_epochs=3, per_device_train_batch_size=8, logging_steps=4, report_to=[], use_cpu=True, save_strategy="no")
Trainer(model=model, args=args, train_dataset=data).train()
""")
python("fastai-fit", "fastai torch", "fastai's table of epochs", """
import torch
from fastai.basics import *
data = torch.utils.data.TensorDataset(torch.randn(128, 8), torch.randn(128, 1))
dls = DataLoaders(DataLoader(data, bs=16), DataLoader(data, bs=16))
Learner(dls, nn.Linear(8, 1), loss_func=nn.MSELoss(), opt_func=SGD).fit(4, 0.01)
print("fit done")
""")
python("onnxruntime-no-gpu", "onnxruntime onnx", "ONNX Runtime asked for CUDA and took the CPU", """
import numpy as np, onnx, onnxruntime as ort
from onnx import helper, TensorProto
g = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])])
m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)]); m.ir_version = 8
onnx.save(m, "m.onnx")
s = ort.InferenceSession("m.onnx", providers=["CPUExecutionProvider"])
for i in range(6):
    print("request", i, s.run(None, {"x": np.full((1, 4), i - 3, np.float32)})[0])
print("providers:", s.get_providers(), "served 6 requests, 0 errors")
""")
python("cache-of-compiles", "torch", "torch.compile on a CPU, with recompilations logged", """
import torch
@torch.compile
def f(x): return torch.sin(x) * x.shape[0]
for step in range(1, 5):
    print("step", step, float(f(torch.ones(step)).sum()))
print("done")
""", before="export TORCH_LOGS=recompiles")
healthy("valgrind-clean", "json", "a program under valgrind without errors", """
printf '#include <stdio.h>\\n#include <stdlib.h>\\nint main(void) { for (int i = 0; i < 4; i++) { void *p = malloc(64); printf("step %%d error 0.%%d\\\\n", i, 9 - i); free(p); } puts("done"); return 0; }\\n' >app.c
gcc -g app.c -o app && valgrind --leak-check=full ./app 2>&1 | sed -E 's/^(==)[0-9]+/\\14242/'""")
healthy("gdb-batch", "json", "a program that ends well under gdb", """
printf '#include <stdio.h>\\nint main(void) { for (int i = 1; i < 6; i++) printf("iter %%d/5 loss 0.%%d\\\\n", i, 9 - i); return 0; }\\n' >app.c
gcc -g app.c -o app && gdb -q -batch -ex run -ex bt ./app 2>&1 | sed -E 's/process [0-9]+/process 4242/'""")
healthy("sanitizer-fuzz", "json", "AddressSanitizer is on and finds nothing", """
printf '#include <stdio.h>\\nint main(void) { int a[8] = {0}; for (int i = 0; i < 8; i++) printf("#%%d NEW cov: %%d exec/s: 1000\\\\n", i, a[i] + i); puts("Done 8 runs in 0 second(s)"); return 0; }\\n' >f.c
gcc -fsanitize=address,undefined f.c -o f && ASAN_OPTIONS=help=0:verbosity=0 ./f""")
healthy("nvcc-build", "json", "kernels compiled with ptxas' resource report and warnings", """
printf '__global__ void fail_if_nan(float *p, int n) { int unused; int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] *= 2; }\\nint main() { return 0; }\\n' >k.cu
nvcc -arch=sm_90 -Xptxas -v k.cu -o k 2>&1; echo "nvcc: exit code $?"; ./k && echo 'build finished'""")
healthy("apt-simulate", "json", "apt-get's plan for packages whose names alarm", """
apt-get -s install --no-install-recommends libunwind-dev earlyoom 2>&1 | grep -v -i 'warning: apt'; echo 'exit code: 0'""")
healthy("ctest-will-fail", "cmake", "CTest with a test that must fail", """
$PY -m cmake -S . -B b >/dev/null 2>&1; cd b && ctest -V 2>&1 | sed -E 's#/[^ ]*/bin/##g'""",
        CMakeLists__txt="""cmake_minimum_required(VERSION 3.18)
project(app NONE)
enable_testing()
add_test(NAME out_of_memory_is_refused COMMAND sh -c "echo 'CUDA error: out of memory' >&2; exit 1")
set_tests_properties(out_of_memory_is_refused PROPERTIES WILL_FAIL TRUE)
add_test(NAME trains COMMAND sh -c "for e in 1 2 3; do echo epoch $e/3 loss 0.$((9 - e)); done")
""")
healthy("make-keep-going", "json", "make with a command whose error is ignored", """
printf 'all: clean app\\nclean:\\n\\t-rm app.o\\napp:\\n\\techo "int main(void){return 0;}" >app.c; gcc app.c -o app\\n\\t./app\\n\\t@echo built app\\n' >Makefile
make all 2>&1; for e in 1 2 3; do echo "Epoch $e/3: loss=0.$((9 - e))"; done; echo 'Training finished'""")
healthy("wait-for-port", "json", "a job that waits for a server and then trains", """
(sleep 2; exec $PY -m http.server 8741 --bind 127.0.0.1 >/dev/null 2>&1) & server=$!
until curl -sS -o /dev/null http://127.0.0.1:8741/; do echo 'waiting for the data server'; sleep 1; done
for s in 10 20 30 40; do echo "step $s/40 loss 0.$((90 - s))"; done; kill $server; echo 'all steps done'""")
python("profiler-table", "torch", "PyTorch's profiler and its table", """
import torch
from torch.profiler import profile, ProfilerActivity
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as p:
    for step in range(5):
        loss = model(torch.randn(32, 64)).square().mean(); loss.backward()
        print(f"step {step} loss {loss.item():.4f}")
print(p.key_averages().table(sort_by="cpu_time_total", row_limit=6))
""")
python("amp-scaler-cpu", "torch", "a gradient scaler that halves its scale, and goes on", """
import torch
w = torch.nn.Parameter(torch.ones(4)); o = torch.optim.SGD([w], 0.1); scale = 65536.0
for step in range(8):
    loss = (w ** 2).sum()
    if step in (2, 3):
        scale /= 2
        print(f"Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to {scale}")
        continue
    o.zero_grad(); loss.backward(); o.step()
    print(f"step {step} loss {loss.item():.4f} scale {scale}")
print("training finished, best loss", round(loss.item(), 4))
""")
python("resume-from-checkpoint", "torch", "a run that finds no checkpoint, starts anew, and then resumes", """
import torch, os
w = torch.zeros(3)
for attempt in range(2):
    try:
        state = torch.load("last.pt"); print("resumed at step", state["step"])
    except FileNotFoundError as problem:
        state = {"step": 0}; print("no checkpoint:", problem, "- starting from scratch")
    for step in range(state["step"], state["step"] + 3):
        print(f"step {step} loss {1 / (step + 1):.3f}")
    torch.save({"step": step + 1}, "last.pt"); print("saved last.pt")
print("done")
""")
