#!/usr/bin/env python3
"""A text that stops in the middle is never clean: `GPUWHY_BUILD=build python3 -B tests/logs/endings.py`.

Each trainer's output is judged up to its middle, and then with the end of the run. The first text is not determined,
the second one is clean. UNSEEN was written before the code and was right at its first reading.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

GPUWHY = pathlib.Path(os.environ.get("GPUWHY_BUILD", "build")) / "gpuwhy"

R = "\r"

STYLES = {
"tqdm": (
"Loaded 48213 samples, 2009 batches\n" + R.join(f"Epoch 4/12:  {p}%|{'█' * (p // 10):10}| {p * 20}/2000 [0{p // 12}:11<0{(100 - p) // 12}:{(100 - p) % 60:02},  4.02it/s, loss=0.9{p}]" for p in range(41, 48)),
R.join(f"Epoch 12/12:  {p}%|{'█' * (p // 10):10}| {p * 20}/2000 [0{p // 12}:11<0{(100 - p) // 12}:{(100 - p) % 60:02},  4.02it/s, loss=0.4{p}]" for p in range(98, 101)) + "\n"),
"keras bar": (
"Epoch 1/15\n1563/1563 ━━━━━━━━━━━━━━━━━━━━ 41s 24ms/step - accuracy: 0.3504 - loss: 1.7611 - val_accuracy: 0.5530 - val_loss: 1.2417\n"
"Epoch 2/15\n" + R.join(f" {n}/1563 ━━━━━━━━━━━━━━━━━━━━ {40 - n // 40}s 25ms/step - accuracy: 0.57{n % 10}1 - loss: 1.2{n % 7}40" for n in (401, 404, 407)),
"1563/1563 ━━━━━━━━━━━━━━━━━━━━ 39s 25ms/step - accuracy: 0.5801 - loss: 1.1840 - val_accuracy: 0.6120 - val_loss: 1.1021\n"
"Epoch 15/15\n1563/1563 ━━━━━━━━━━━━━━━━━━━━ 38s 24ms/step - accuracy: 0.8104 - loss: 0.5411 - val_accuracy: 0.7230 - val_loss: 0.8817\n"),
"keras 2": (
"Epoch 1/20\n782/782 [==============================] - 12s 15ms/step - loss: 0.6931 - acc: 0.5012\n"
"Epoch 2/20\n" + R.join(f"{n}/782 [=====>........................] - ETA: {11 - n // 90}s - loss: 0.66{n % 10}1 - acc: 0.57{n % 9}2" for n in (155, 161, 167)),
"782/782 [==============================] - 12s 15ms/step - loss: 0.6531 - acc: 0.5912\n"
"Epoch 20/20\n782/782 [==============================] - 12s 15ms/step - loss: 0.2131 - acc: 0.9012\n"),
"lightning": (
"GPU available: True (cuda), used: True\nTPU available: False, using: 0 TPU cores\nLOCAL_RANK: 0 - CUDA_VISIBLE_DEVICES: [0]\n"
"Epoch 0: 100%|██████████| 938/938 [00:31<00:00, 29.71it/s, v_num=3, train_loss=0.311]\n"
+ R.join(f"Epoch 1:  {p}%|███       | {p * 938 // 100}/938 [00:{p // 3}<00:{(100 - p) // 3}, 29.80it/s, v_num=3, train_loss=0.2{p}]" for p in (30, 31, 32)),
"Epoch 9: 100%|██████████| 938/938 [00:31<00:00, 29.70it/s, v_num=3, train_loss=0.102]\n`Trainer.fit` stopped: `max_epochs=10` reached.\n"),
"lightning, between two epochs": (
"GPU available: True (cuda), used: True\n"
+ "".join(f"Epoch {n}: 100%|██████████| 938/938 [00:31<00:00, 29.71it/s, v_num=3]\n" for n in (0, 1, 2)),
"Epoch 9: 100%|██████████| 938/938 [00:31<00:00, 29.70it/s, v_num=3]\n`Trainer.fit` stopped: `max_epochs=10` reached.\n"),
"mmengine": (
"03/02 14:21:07 - mmengine - INFO - Checkpoints will be saved to /work_dirs/faster-rcnn.\n"
"03/02 14:21:40 - mmengine - INFO - Epoch(train)  [1][  50/7330]  lr: 1.9820e-03  eta: 13:52:10  time: 0.5681  data_time: 0.0102  memory: 3871  loss: 1.8842  loss_cls: 0.9121\n"
"03/02 14:22:08 - mmengine - INFO - Epoch(train)  [1][ 100/7330]  lr: 3.9840e-03  eta: 13:40:02  time: 0.5522  data_time: 0.0088  memory: 3902  loss: 1.2071  loss_cls: 0.5561\n"
"03/02 14:22:35 - mmengine - INFO - Epoch(train)  [1][ 150/7330]  lr: 5.9860e-03  eta: 13:38:44  time: 0.5510  data_time: 0.0091  memory: 3902  loss: 1.1904  loss_cls: 0.5418\n",
"03/03 03:50:12 - mmengine - INFO - Epoch(train) [12][7330/7330]  lr: 2.0000e-04  eta: 0:00:00  time: 0.5512  data_time: 0.0091  memory: 3902  loss: 0.5104  loss_cls: 0.1818\n"
"03/03 03:50:14 - mmengine - INFO - Saving checkpoint at 12 epochs\n"
"03/03 03:54:51 - mmengine - INFO - Epoch(val) [12][5000/5000]    coco/bbox_mAP: 0.3740  coco/bbox_mAP_50: 0.5810  data_time: 0.0041  time: 0.0531\n"),
"detectron2": (
"[05/19 08:01:44 d2.engine.train_loop]: Starting training from iteration 0\n"
"[05/19 08:02:01 d2.utils.events]:  eta: 12:10:31  iter: 19  total_loss: 1.904  loss_cls: 0.91  time: 0.4871  last_time: 0.4751  data_time: 0.0192  lr: 0.00039962  max_mem: 6121M\n"
"[05/19 08:02:11 d2.utils.events]:  eta: 12:08:02  iter: 39  total_loss: 1.511  loss_cls: 0.71  time: 0.4863  last_time: 0.4912  data_time: 0.0052  lr: 0.00079922  max_mem: 6121M\n"
"[05/19 08:02:21 d2.utils.events]:  eta: 12:08:11  iter: 59  total_loss: 1.422  loss_cls: 0.66  time: 0.4868  last_time: 0.4822  data_time: 0.0049  lr: 0.0011988  max_mem: 6180M\n",
"[05/19 20:12:02 d2.utils.events]:  eta: 0:00:00  iter: 89999  total_loss: 0.422  loss_cls: 0.16  time: 0.4868  last_time: 0.4822  data_time: 0.0049  lr: 2e-05  max_mem: 6180M\n"
"[05/19 20:12:03 d2.engine.hooks]: Overall training speed: 89998 iterations in 12:10:08 (0.4868 s / it)\n"),
"ultralytics": (
"Ultralytics 8.3.40 Python-3.11.9 torch-2.4.1 CUDA:0 (NVIDIA RTX A4000, 16101MiB)\n"
"Starting training for 100 epochs...\n\n      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n"
+ R.join(f"      7/100      4.11G      1.19{p % 9}      1.02      1.21        {p}        640: {p}%|████▏     | {p}/120 [00:0{p % 10}<00:11,  7.01it/s]" for p in (48, 49, 50)),
"    100/100      4.11G      0.791      0.52      0.97        84        640: 100%|██████████| 120/120 [00:17<00:00,  7.01it/s]\n"
"                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 100%|██████████| 12/12 [00:02<00:00,  5.1it/s]\n"
"                   all        350       1211      0.861      0.802      0.871      0.640\n\n100 epochs completed in 0.621 hours.\nResults saved to runs/detect/train7\n"),
"fairseq": (
"2023-02-11 10:10:01 | INFO | fairseq.trainer | begin training epoch 3\n"
"2023-02-11 10:11:02 | INFO | train_inner | epoch 003:    100 / 1122 loss=7.121, nll_loss=5.902, ppl=59.8, wps=31210, ups=8.1, wpb=3850, num_updates=2344, lr=0.00011, gnorm=1.1\n"
"2023-02-11 10:11:15 | INFO | train_inner | epoch 003:    200 / 1122 loss=7.072, nll_loss=5.841, ppl=57.3, wps=31190, ups=8.0, wpb=3848, num_updates=2444, lr=0.00012, gnorm=1.1\n"
"2023-02-11 10:11:28 | INFO | train_inner | epoch 003:    300 / 1122 loss=7.011, nll_loss=5.790, ppl=55.3, wps=31201, ups=8.0, wpb=3851, num_updates=2544, lr=0.00013, gnorm=1.0\n",
"2023-02-11 14:30:41 | INFO | fairseq_cli.train | end of epoch 30 (average epoch stats below)\n"
"2023-02-11 14:30:41 | INFO | train | epoch 030 | loss 4.011 | nll_loss 2.501 | ppl 5.66 | num_updates 33660 | train_wall 9012\n"
"2023-02-11 14:30:41 | INFO | fairseq_cli.train | done training in 15640.2 seconds\n"),
"hf trainer": (
"***** Running training *****\n  Num examples = 12,500\n  Num Epochs = 3\n  Total optimization steps = 4,689\n"
"{'loss': 0.6121, 'grad_norm': 2.11, 'learning_rate': 4.46e-05, 'epoch': 0.32}\n{'loss': 0.4711, 'grad_norm': 1.87, 'learning_rate': 3.93e-05, 'epoch': 0.64}\n"
"{'loss': 0.4302, 'grad_norm': 3.02, 'learning_rate': 3.40e-05, 'epoch': 0.96}\n",
"{'loss': 0.1822, 'grad_norm': 1.02, 'learning_rate': 1.2e-07, 'epoch': 2.98}\n"
"{'train_runtime': 1911.2, 'train_samples_per_second': 19.62, 'train_steps_per_second': 2.45, 'train_loss': 0.291, 'epoch': 3.0}\n"),
"deepspeed": (
"[2024-04-22 09:12:02,511] [INFO] [logging.py:96:log_dist] [Rank 0] DeepSpeed Flops Profiler Enabled: False\n"
"[2024-04-22 09:14:12,101] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, lr=[9.6e-06], mom=[(0.9, 0.95)]\nsteps: 10 loss: 2.1402 iter time (s): 1.912 samples/sec: 33.472\n"
"[2024-04-22 09:14:31,322] [INFO] [logging.py:96:log_dist] [Rank 0] step=20, skipped=0, lr=[1.9e-05], mom=[(0.9, 0.95)]\nsteps: 20 loss: 1.9511 iter time (s): 1.921 samples/sec: 33.310\n"
"[2024-04-22 09:14:50,501] [INFO] [logging.py:96:log_dist] [Rank 0] step=30, skipped=0, lr=[2.0e-05], mom=[(0.9, 0.95)]\nsteps: 30 loss: 1.9120 iter time (s): 1.918 samples/sec: 33.401\n",
"[2024-04-22 11:02:12,511] [INFO] [logging.py:96:log_dist] [Torch] Checkpoint global_step3000 is ready now!\nTraining finished.\n"
"[2024-04-22 11:02:20,101] [INFO] [launch.py:347:main] Process 40122 exits successfully.\n"),
"megatron": (
" [2025-01-08 03:11:21] iteration     1210/  500000 | consumed samples:       309760 | elapsed time per iteration (ms): 6021.4 | learning rate: 1.8E-05 | global batch size:   256 | lm loss: 5.412101E+00 | loss scale: 1.0 | grad norm: 1.201 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
" [2025-01-08 03:12:21] iteration     1220/  500000 | consumed samples:       312320 | elapsed time per iteration (ms): 6018.8 | learning rate: 1.8E-05 | global batch size:   256 | lm loss: 5.401233E+00 | loss scale: 1.0 | grad norm: 1.191 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
" [2025-01-08 03:13:21] iteration     1230/  500000 | consumed samples:       314880 | elapsed time per iteration (ms): 6020.1 | learning rate: 1.8E-05 | global batch size:   256 | lm loss: 5.388120E+00 | loss scale: 1.0 | grad norm: 1.180 | number of skipped iterations:   0 | number of nan iterations:   0 |\n",
" [2025-02-11 17:13:21] iteration   500000/  500000 | consumed samples:    128000000 | elapsed time per iteration (ms): 6020.1 | learning rate: 1.0E-06 | global batch size:   256 | lm loss: 1.988120E+00 | loss scale: 1.0 | grad norm: 0.180 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
"[after training is done] datetime: 2025-02-11 17:13:25\nsaving checkpoint at iteration  500000 to /ckpt in torch_dist format\n  successfully saved checkpoint from iteration  500000 to /ckpt\n"),
"nnunet": (
"2024-09-03 18:01:11.101202: Epoch 41\n2024-09-03 18:01:11.101301: Current learning rate: 0.00963\n"
"2024-09-03 18:03:40.202101: train_loss -0.6121\n2024-09-03 18:03:40.202210: val_loss -0.5902\n2024-09-03 18:03:40.202311: Pseudo dice [0.8712, 0.7902]\n2024-09-03 18:03:40.202400: Epoch time: 149.10 s\n"
"2024-09-03 18:03:41.001202: \n2024-09-03 18:03:41.001210: Epoch 42\n2024-09-03 18:03:41.001301: Current learning rate: 0.00962\n",
"2024-09-05 11:20:10.202101: train_loss -0.8121\n2024-09-05 11:20:10.202210: val_loss -0.7702\n2024-09-05 11:20:10.202400: Epoch time: 148.10 s\n"
"2024-09-05 11:20:12.100000: Training done.\n2024-09-05 11:20:12.301000: Using splits from existing split file\n2024-09-05 11:41:51.101000: Validation complete\n2024-09-05 11:41:51.101100: Mean Validation Dice:  0.8602\n"),
"kohya": (
"running training / 学習開始\n  num train images * repeats / 学習画像の数×繰り返し回数: 400\n  total optimization steps / 学習ステップ数: 2000\n"
+ R.join(f"steps:  {p}%|██▏       | {p * 20}/2000 [0{p // 6}:02<{(100 - p) // 4}:11,  1.01s/it, avr_loss=0.10{p}]" for p in (20, 21, 22)),
R.join(f"steps: {p}%|██████████| {p * 20}/2000 [33:02<00:0{100 - p},  1.01s/it, avr_loss=0.08{p}]" for p in (98, 99, 100)) + "\nsaving checkpoint: /out/style.safetensors\nmodel saved.\n"),
"tf estimator": (
"INFO:tensorflow:Create CheckpointSaverHook.\nINFO:tensorflow:loss = 2.3104, step = 0\nINFO:tensorflow:global_step/sec: 41.22\nINFO:tensorflow:loss = 0.8121, step = 100 (2.426 sec)\n"
"INFO:tensorflow:global_step/sec: 44.02\nINFO:tensorflow:loss = 0.6102, step = 200 (2.271 sec)\nINFO:tensorflow:global_step/sec: 44.31\nINFO:tensorflow:loss = 0.5711, step = 300 (2.256 sec)\n",
"INFO:tensorflow:loss = 0.0911, step = 19900 (2.261 sec)\nINFO:tensorflow:Saving checkpoints for 20000 into /tmp/model/model.ckpt.\nINFO:tensorflow:Loss for final step: 0.08811.\n"),
"caffe": (
"I0611 09:12:03.110201  4021 solver.cpp:279] Solving LeNet\nI0611 09:12:03.110220  4021 solver.cpp:280] Learning Rate Policy: inv\n"
"I0611 09:12:09.330421  4021 solver.cpp:228] Iteration 100, loss = 0.221432\nI0611 09:12:09.330460  4021 sgd_solver.cpp:106] Iteration 100, lr = 0.00992565\n"
"I0611 09:12:15.520411  4021 solver.cpp:228] Iteration 200, loss = 0.150122\nI0611 09:12:15.520450  4021 sgd_solver.cpp:106] Iteration 200, lr = 0.00985258\n"
"I0611 09:12:21.720401  4021 solver.cpp:228] Iteration 300, loss = 0.161190\nI0611 09:12:21.720440  4021 sgd_solver.cpp:106] Iteration 300, lr = 0.00978075\n",
"I0611 09:22:15.520411  4021 solver.cpp:317] Iteration 10000, loss = 0.00312\nI0611 09:22:15.520450  4021 solver.cpp:337] Iteration 10000, Testing net (#0)\n"
"I0611 09:22:18.100411  4021 solver.cpp:404]     Test net output #0: accuracy = 0.9912\nI0611 09:22:18.100450  4021 solver.cpp:322] Optimization Done.\nI0611 09:22:18.100460  4021 caffe.cpp:254] Optimization Done.\n"),
"paddle": (
"[2023/07/01 12:00:01] ppcls INFO: [Train][Epoch 2/120][Iter: 0/312]lr(LinearWarmup): 0.0102, top1: 0.2101, CELoss: 4.8121, loss: 4.8121, batch_cost: 0.4121s, reader_cost: 0.2100, ips: 621.1 samples/s, eta: 4:12:01\n"
"[2023/07/01 12:00:05] ppcls INFO: [Train][Epoch 2/120][Iter: 10/312]lr(LinearWarmup): 0.0104, top1: 0.2144, CELoss: 4.7921, loss: 4.7921, batch_cost: 0.4021s, reader_cost: 0.2000, ips: 636.6 samples/s, eta: 4:08:51\n"
"[2023/07/01 12:00:09] ppcls INFO: [Train][Epoch 2/120][Iter: 20/312]lr(LinearWarmup): 0.0106, top1: 0.2190, CELoss: 4.7021, loss: 4.7021, batch_cost: 0.4011s, reader_cost: 0.2001, ips: 638.2 samples/s, eta: 4:08:20\n",
"[2023/07/01 16:10:09] ppcls INFO: [Train][Epoch 120/120][Iter: 310/312]lr(LinearWarmup): 0.0001, top1: 0.8190, CELoss: 1.0021, loss: 1.0021, batch_cost: 0.4011s, eta: 0:00:00\n"
"[2023/07/01 16:10:20] ppcls INFO: [Train][Epoch 120/120][Avg]top1: 0.81210, CELoss: 1.0112, loss: 1.0112\n[2023/07/01 16:10:41] ppcls INFO: [Eval][Epoch 120][best metric: 0.78121]\n"),
"flax loop": (
"I1204 10:01:02.110231 140211 train.py:201] Hello from process 0 holding 4/4 devices.\nI1204 10:02:11.210231 140211 logging_writer.py:48] [50] accuracy=0.1201, loss=4.10211, steps_per_second=3.9011\n"
"I1204 10:02:24.310231 140211 logging_writer.py:48] [100] accuracy=0.2101, loss=3.62213, steps_per_second=3.9121\nI1204 10:02:37.410231 140211 logging_writer.py:48] [150] accuracy=0.2702, loss=3.22341, steps_per_second=3.9101\n",
"I1204 11:02:37.410231 140211 logging_writer.py:48] [25000] accuracy=0.7702, loss=1.02341, steps_per_second=3.9101\nI1204 11:02:59.410231 140211 logging_writer.py:48] [25000] eval_accuracy=0.7612, eval_loss=1.0711\n"
"I1204 11:03:01.410231 140211 checkpoints.py:120] Saved checkpoint at /data/ckpt/checkpoint_25000\n"),
"plain epochs": (
"cuda:0\nEpoch 1/100 loss 2.3025\nEpoch 2/100 loss 2.1121\nEpoch 3/100 loss 1.9821\n",
"Epoch 98/100 loss 0.2311\nEpoch 99/100 loss 0.2305\nEpoch 100/100 loss 0.2299\n"),
"custom batch": (
"epoch 2/5\n| Batch [812/2400] | loss: 0.6121 | lr 0.0002 |\n| Batch [813/2400] | loss: 0.6002 | lr 0.0002 |\n| Batch [814/2400] | loss: 0.6210 | lr 0.0002 |\n",
"epoch 5/5\n| Batch [2399/2400] | loss: 0.3202 | lr 0.0001 |\n| Batch [2400/2400] | loss: 0.3210 | lr 0.0001 |\nsaved model.pt\n"),
}

UNSEEN = {
"timm": (
"Scheduled epochs: 310. LR stepped per epoch.\n"
"Train: 14 [   0/1251 (  0%)]  Loss: 4.21 (4.21)  Time: 1.812s,  141.2/s  (1.812s,  141.2/s)  LR: 9.8e-04  Data: 1.402 (1.402)\n"
"Train: 14 [  50/1251 (  4%)]  Loss: 4.02 (4.11)  Time: 0.412s,  621.3/s  (0.441s,  580.4/s)  LR: 9.8e-04  Data: 0.012 (0.041)\n"
"Train: 14 [ 100/1251 (  8%)]  Loss: 4.18 (4.12)  Time: 0.410s,  624.1/s  (0.426s,  600.9/s)  LR: 9.8e-04  Data: 0.011 (0.026)\n",
"Train: 309 [1250/1251 (100%)]  Loss: 2.18 (2.12)  Time: 0.410s,  624.1/s  (0.426s,  600.9/s)  LR: 1.0e-05  Data: 0.011 (0.026)\n"
"Test: [ 195/195]  Time: 0.210 (0.221)  Loss:   0.9121 (0.9544)  Acc@1:  80.121 ( 78.812)  Acc@5:  95.121 ( 94.210)\n*** Best metric: 78.812 (epoch 309)\n"),
"accelerate": (
"08/14/2024 21:02:11 - INFO - __main__ - ***** Running training *****\n08/14/2024 21:02:11 - INFO - __main__ -   Num Epochs = 40\n08/14/2024 21:02:11 - INFO - __main__ -   Total optimization steps = 15000\n"
+ R.join(f"Steps:   {n // 150}%|▍         | {n}/15000 [{n // 60}:10<8:{n % 50}:01,  2.02s/it, lr=0.0001, step_loss=0.02{n % 70}]" for n in (620, 621, 622)),
R.join(f"Steps: 100%|██████████| {n}/15000 [8:31:10<00:00,  2.02s/it, lr=0.0001, step_loss=0.01{n % 70}]" for n in (14999, 15000)) + "\nModel weights saved in /out/lora/pytorch_lora_weights.safetensors\n"),
"vllm server": (
"INFO 11-02 10:00:01 [api_server.py:1090] Starting vLLM API server on http://0.0.0.0:8000\nINFO:     Application startup complete.\n"
"INFO:     10.2.0.7:51022 - \"POST /v1/chat/completions HTTP/1.1\" 200 OK\nINFO:     10.2.0.7:51024 - \"POST /v1/chat/completions HTTP/1.1\" 200 OK\n"
"INFO 11-02 10:02:01 [loggers.py:116] Engine 000: Avg prompt throughput: 112.1 tokens/s, Avg generation throughput: 410.2 tokens/s, Running: 12 reqs, Waiting: 0 reqs, GPU KV cache usage: 11.2%\n"
"INFO 11-02 10:02:11 [loggers.py:116] Engine 000: Avg prompt throughput: 98.3 tokens/s, Avg generation throughput: 402.7 tokens/s, Running: 12 reqs, Waiting: 0 reqs, GPU KV cache usage: 12.0%\n",
"INFO:     Shutting down\nINFO:     Waiting for application shutdown.\nINFO:     Application shutdown complete.\nINFO:     Finished server process [412]\n"),
"llama.cpp": (
"llama_model_loader: loaded meta data with 26 key-value pairs and 291 tensors from m.gguf\nsystem_info: n_threads = 8 / 16 | CUDA : ARCHS = 860 |\nperplexity: calculating perplexity over 655 chunks, n_ctx=512, batch_size=2048, n_seq=4\n"
"perplexity: 1.31 seconds per pass - ETA 3.57 minutes\n[1]4.1021,[2]4.5120,[3]5.2112,[4]5.8401,[5]5.9122,[6]6.0121,[7]6.1901,[8]6.5120,",
"[652]6.1021,[653]6.1120,[654]6.1112,[655]6.1101,\nFinal estimate: PPL = 6.1101 +/- 0.03441\n\nllama_perf_context_print:        load time =    1320.11 ms\nllama_perf_context_print:       total time =  214010.22 ms / 335361 tokens\n"),
"xgboost": (
"[0]\ttrain-rmse:0.48121\tvalid-rmse:0.48412\n[50]\ttrain-rmse:0.31022\tvalid-rmse:0.33120\n[100]\ttrain-rmse:0.25121\tvalid-rmse:0.29022\n[150]\ttrain-rmse:0.22121\tvalid-rmse:0.27022\n",
"[499]\ttrain-rmse:0.10121\tvalid-rmse:0.22022\nBest iteration: 481, rmse 0.2199\nmodel written to model.ubj\n"),
}


def status(path, text):
    path.write_text(text, newline="")
    done = subprocess.run([GPUWHY, "explain", "--json", path], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if not done.stdout:
        sys.exit(f"{path}: no answer: {done.stderr}")
    return json.loads(done.stdout)["status"]


def main():
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "train.log"
        for name, (middle, end) in {**STYLES, **UNSEEN}.items():
            redrawn = "" if middle.endswith("\n") else R
            for text, wanted in ((middle, "undetermined"), (middle + redrawn + end, "clean")):
                got = status(path, text)
                wrong += got != wanted
                if got != wanted:
                    print(f"wrong: {name}: {wanted}, taken for {got}")
    print(f"{2 * (len(STYLES) + len(UNSEEN))} texts, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
