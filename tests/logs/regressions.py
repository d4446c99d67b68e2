#!/usr/bin/env python3
"""Known problems of libraries: each row of data/regressions.tsv on a case that is made for it, and on its healthy twin.

    regressions.py [--gpuwhy FILE]

A case is a log or a list of packages (for `gpuwhy doctor`), in which {v} is replaced by the value that decides: most often
a version. With `bad` the row must be reported, and with `good` it must not. No log of this folder may match a row.
"""
import argparse
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import json_schemas

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 6.25 GiB. GPU 0 has a total capacity of 23.55 GiB of " \
      "which 2.11 GiB is free. Including non-PyTorch memory, this process has 21.43 GiB memory in use. Of the allocated memory " \
      "20.90 GiB is allocated by PyTorch, and 210.11 MiB is reserved by PyTorch but unallocated.\n"
TRACE = 'Traceback (most recent call last):\n  File "/home/user/brain/train.py", line 88, in <module>\n    main()\n'
CONV3D = TRACE + '  File "/opt/env/lib/python3.11/site-packages/torch/nn/modules/conv.py", line 717, in _conv_forward\n' \
         "    return F.conv3d(\n" + OOM


WATCHDOG = "[rank0]:[E1201 03:11:19 ProcessGroupNCCL.cpp:688] [Rank 0] Watchdog caught collective operation timeout: " \
           "WorkNCCL(SeqNum=911, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=600000) ran for 600081 " \
           "milliseconds before timing out.\n"
ILLEGAL = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"
NAN = "step 1 loss: 2.25\nstep 2 loss: nan\nstep 3 loss: nan\n"
TORCH = "PyTorch version: {v}\n"
SLOW_CONV3D = "                 Name    CUDA total %\naten::slow_conv_dilated3d          91.20%\nepoch 3/3 step 400/400 loss 0.31\ntraining finished, best loss 0.31\n"
XLA_CUDNN = "E0303 05:59:07 41 cuda_dnn.cc:454] Loaded runtime CuDNN library: 9.0.0 but source was compiled with: 9.8.0. CuDNN library needs to " \
            "have matching major version.\n" + TRACE + "jax.errors.JaxRuntimeError: FAILED_PRECONDITION: DNN library initialization failed.\n"
ORT = "[W:onnxruntime:Default, onnxruntime_pybind_state.cc:965] Failed to create CUDAExecutionProvider. Require cuDNN #.* and CUDA 12.*.\n"
SITE = "/opt/env/lib/python3.11/site-packages/"


def log(bad, good, text):
    return "log", bad, good, text


def at(path, call):
    """A frame of a traceback in a file of an installed package."""
    return TRACE + f'  File "{SITE}{path}", line 311, in forward\n    {call}\n'


def packages(bad, good, text, card="NVIDIA H100 80GB HBM3", capability="9.0"):
    """The packages of an interpreter, one `name version` a line, and a card. `cuda`, `driver` and `cards` are names, too."""
    return "packages", bad, good, (text, card, capability)


# Key: library and first version, with words of the row's text if there are several.
CASES = {
    "PyTorch 2.9.0 computes conv3d in bf16 and fp16 without cuDNN, with": log("2.9.0+cu128", "2.8.0+cu128", "[pip3] torch=={v}\n[pip3] triton==3.5.0\n" + CONV3D),
    "PyTorch 2.9.1 computes conv3d in bf16 and fp16 without cuDNN if": log("9.10.2.21", "9.15.1.9", "PyTorch version: 2.9.1+cu128\n[pip3] nvidia-cudnn-cu12=={v}\n" + CONV3D),
    "NCCL 2.29.2": log("2.29.2", "2.29.3", "node7:311:311 [0] NCCL INFO NCCL version {v}+cuda13.0\nstep 40 loss 2.1\n" + WATCHDOG),
    "NCCL 2.28.9": log("2.28.9", "2.29.3", "gh3:77:77 [0] NCCL INFO NCCL version {v}+cuda13.0\nGPU 0: NVIDIA GH200 480GB\n" + WATCHDOG),
    "NCCL 2.20.5": log("2.20.5", "2.23.4", "box:9:9 [0] NCCL INFO NCCL version {v}+cuda12.4\nstep 40 loss 2.1\n"
                       "#4  0x00007f22c1 in ncclLaunchKernelBefore_NoUncapturedCuda (comm=0x55d0) at enqueue.cc:1215\n" + WATCHDOG),
    "NCCL 2.19": log("535.161.07", "550.54.15", "Nvidia driver version: {v}\n[pip3] nvidia-nccl-cu12==2.19.3\n"
                     "Capturing the model for CUDA graphs. This may lead to unexpected consequences.\n"
                     + at("vllm_like/worker/runner.py", "graph_runner.capture(") + OOM),
    "NCCL - ": log("2.14.3", "2.18.1", "[pip3] torch==2.0.1\nCUDA_LAUNCH_BLOCKING=1\nbox:9:9 [0] NCCL INFO NCCL version {v}+cuda11.7\n" + WATCHDOG),
    "PyTorch 2.7.0 hangs": log("2.7.0+cu126", "2.7.1+cu126", TORCH + "step 40 loss 2.1\n" + WATCHDOG),
    "PyTorch 2.7.0 creates": log("2.7.0+cu126", "2.7.1+cu126", TORCH + at("torch/distributed/distributed_c10d.py", "work = group.barrier(opts=opts)")
                                 .replace("in forward", "in barrier") + OOM),
    "PyTorch 2.5.0 prefers cuDNN for scaled_dot_product_attention(), which": log(
        "2.5.0+cu124", "2.5.1+cu124", TORCH + at("diffusers/models/attention_processor.py", "hidden = F.scaled_dot_product_attention(query, key, value)")
        + "RuntimeError: cuDNN Frontend error: [cudnn_frontend] Error: No execution plans support the graph.\n"),
    "PyTorch 2.5.0 prefers cuDNN for scaled_dot_product_attention(), whose": log(
        "2.5.0+cu124", "2.5.1+cu124", TORCH + "attention: torch scaled_dot_product_attention\n" + NAN),
    "PyTorch 2.12.0 compiles": log("2.12.0+cu130", "2.12.1+cu130", TORCH + "GPU 0: NVIDIA B200\n" + at(
        "torch/_inductor/runtime/triton_heuristics.py", "launcher(*args)  # triton_tem_fused_convolution2d_bwd_weight_3") + ILLEGAL),
    "PyTorch 2.12.0 gives": packages("2.12.0", "2.12.1", "torch {v}", "NVIDIA B200", "10.0"),
    "PyTorch 2.6.0 loads": log("2.6.0+cu124", "2.7.0+cu126", TORCH + "resuming; layers wrapped with fully_shard\n" + NAN),
    "PyTorch 2.6.0 can": log("2.6.0+cu124", "2.7.0+cu126", TORCH + "W1201 torch/_dynamo/convert_frame.py:906] torch._dynamo hit config.recompile_limit (8)\n" + NAN),
    "PyTorch 2.4.0": log("2.4.0+cu121", "2.4.1+cu121", TORCH + "W1201 torch/_inductor/utils.py:977] Not enough SMs to use max_autotune_gemm mode\n" + NAN),
    "PyTorch 2.2.0 leaks": log("2.2.1+cu121", "2.3.1+cu121", TORCH + at("torch/_dynamo/eval_frame.py", "return fn(*args, **kwargs)") + OOM),
    "PyTorch 2.2.0 needs": log("2.2.1+cu121", "2.1.2+cu121", TORCH + TRACE + 'ImportError: ' + SITE + 'torch/lib/libtorch_cuda.so: undefined symbol: ncclCommRegister\n'),
    "PyTorch - ": log("2.0.1", "1.26.4", "[pip3] numpy=={v}\n[pip3] torch==2.2.0\nA module that was compiled using NumPy 1.x cannot be run as it is.\n"
                      + at("torch/utils/data/_utils/collate.py", "return torch.as_tensor(batch)") + "RuntimeError: Numpy is not available\n"),
    "PyTorch 2.1.0 ": log("NVIDIA H20", "NVIDIA H200", "PyTorch version: 2.1.0+cu121\nGPU 0: {v}\nFatal Python error: Floating point exception\n\n"
                          'Thread 0x00007f5c (most recent call first):\n  File "/home/user/serve.py", line 12 in main\n'),
    "PyTorch 1.11.0": packages("NVIDIA GeForce GTX 1660 Ti", "NVIDIA GeForce RTX 2060", "torch 1.13.1", "{v}", "7.5"),
    "PyTorch 2.1.2": packages("12.1", "11.8", "torch 2.1.2\ncuda {v}", "NVIDIA L4", "8.9"),
    "cuBLAS 12.1": packages("12.1.3.1", "12.4.5.8", "nvidia-cublas-cu12 {v}", "NVIDIA H20", "9.0"),
    "cuBLAS 12.8": packages("12.9.1.4", "13.2.0.9", "nvidia-cublas {v}", "NVIDIA B200", "10.0"),
    "cuDNN 9.0": packages("9.8.0.87", "9.10.2.21", "nvidia-cudnn-cu12 {v}\nnvidia-cublas-cu12 12.9.1.4\ncards 2"),
    "cuDNN 9.10.0": packages("9.10.0.56", "9.10.1.4", "nvidia-cudnn-cu12 {v}\njaxlib 0.6.1"),
    "cuDNN 9.8 ": log("9.8.0.87", "9.15.1.9", "PyTorch version: 2.8.0+cu128\n[pip3] nvidia-cudnn-cu12=={v}\nfirst layer: Conv3d(1, 32)\n" + NAN),
    "cuDNN 9.10.2": log("9.10.2.21", "9.16.0.29", "PyTorch version: 2.9.0+cu128\n[pip3] nvidia-cudnn-cu12=={v}\nfirst layer: Conv3d(1, 32)\n" + NAN),
    "cuDNN 9.11": log("9.11.0.98", "9.13.0.50", "PyTorch version: 2.9.1+cu128\n[pip3] nvidia-cudnn-cu12=={v}\nGPU 0: NVIDIA H100 80GB HBM3\n"
                      + at("torch/autograd/graph.py", "return Variable._execution_engine.run_backward(") +
                      "RuntimeError: cuDNN Frontend error: [cudnn_frontend] Error: No valid engine configs for the graph.\n"),
    "cuDNN 8.9.0 may compute fused": packages("8.9.1.23", "8.9.2.26", "nvidia-cudnn-cu12 {v}", "Tesla P100-PCIE-16GB", "6.0"),
    "cuDNN 8.9.0 may compute incorrect": packages("8.9.2.26", "8.9.3.28", "nvidia-cudnn-cu12 {v}", "Tesla M40", "5.2"),
    "cuDNN 8.6": packages("8.6.0.163", "8.8.1.3", "nvidia-cudnn-cu11 {v}\njaxlib 0.4.10"),
    "CUDA 12.9 has a cuBLAS": log("2.8.0+cu129", "2.8.0+cu128", TORCH + "matmul: calling cublasLtMatmul with an epilogue\n" + NAN),
    "driver 535": log("535.161.08", "550.90.07", "Nvidia driver version: {v}\nGPU 0: NVIDIA A10G\nCapturing the model for CUDA graphs. This may take a while.\n"
                      + at("vllm_like/worker/runner.py", "graph_runner.capture(") + OOM),
    "driver 560": packages("565.57.01", "570.86.15", "driver {v}\ncards 2"),
    "Triton 3.5.0": packages("3.5.0", "3.5.1", "triton {v}", "NVIDIA GB300", "10.3"),
    "Triton 3.2.0": log("3.2.0", "3.3.0", "[pip3] triton=={v}\nGPU 0: NVIDIA GeForce RTX 5090\n"
                        "python: /source/lib/Dialect/Gpu/Transforms/Matmul.cpp:36: int versionOf(int, int): Assertion `false && \"computeCapability not supported\"' failed.\nAborted (core dumped)\n"),
    "Triton 2.2": packages("2.2.0", "2.1.0", "triton {v}", "Tesla V100-SXM2-32GB", "7.0"),
    "TensorFlow 2.16.1 does": log("2.16.1", "2.17.0", "tensorflow=={v}\nW tensorflow/core/common_runtime/gpu/gpu_device.cc:2251] Cannot dlopen some GPU libraries. "
                                  "Please make sure the missing libraries mentioned above are installed properly if you would like to use GPU.\nSkipping registering GPU devices...\n"
                                  + TRACE + "RuntimeError: no GPU found\n"),
    "TensorFlow 2.16.1 refuses": log("2.16.1", "2.17.0", "tensorflow=={v}\nF external/local_xla/xla/service/gpu/asm_compiler.cc:133] ptxas 12.3.103 "
                                     "has a bug that we think can affect XLA. Please use a different version.\nAborted (core dumped)\n"),
    "TensorFlow 2.16.1 uses": log("2.16.1", "2.15.1", "tensorflow=={v}\n" + at("keras/src/utils/traceback_utils.py", "raise e.with_traceback(filtered_tb) from None") +
                                  "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[64,512,56,56] and type "
                                  "float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc\n"),
    "TensorFlow 2.21.0": log("2.21.0", "2.20.0", "tensorflow=={v}\nGPU 0: NVIDIA GeForce RTX 5090\nptxas fatal : PTX version 8.3 does not support target 'sm_120'\nAborted (core dumped)\n"),
    "jaxlib 0.4.23": log("0.4.23", "0.4.24", "jaxlib=={v}\nXLA_PYTHON_CLIENT_PREALLOCATE=false\n" + TRACE +
                         "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes.\n"),
    "CuPy 14.0.1": log("14.0.1", "13.6.0", "cupy-cuda12x=={v}\n" + at("cupy/_core/core.py", "out = _add(a[:-1], a[1:], out=a[1:])") +
                       "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorIllegalAddress: an illegal memory access was encountered\n"),
    "Numba 0.56.4": log("0.56.4", "0.57.0", "numba=={v}\nCUDA Version: 12.1\n" + at("numba/cuda/cudadrv/nvvm.py", "self._try_error(err, 'Failed to verify')") +
                        "numba.cuda.cudadrv.error.NvvmError: Failed to verify\nNVVM_ERROR_IR_VERSION_MISMATCH\n"),
    "onnxruntime 1.17.1": log("1.17.1", "1.16.3", "onnxruntime-gpu=={v}\n" + at("onnxruntime/capi/onnxruntime_inference_collection.py", "return self._sess.run(output_names, input_feed)")
                              + "Segmentation fault (core dumped)\n"),
    "onnxruntime 1.16.2": log("1.16.2", "1.16.3", "onnxruntime-gpu=={v}\nproviders: ['TensorrtExecutionProvider', 'CUDAExecutionProvider']\n" + TRACE +
                              "onnxruntime.capi.onnxruntime_pybind11_state.RuntimeException: [ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : CUDA failure 2: out of memory ; GPU=0 ; hostname=box\n"),
    "TensorRT 10.13": log("10.13.2.6", "10.3.0", "tensorrt=={v}\nexport done; loading tensorrt engine\n" + NAN),
    "bitsandbytes 0.39": log("0.42.0", "0.43.3", "bitsandbytes=={v}\n" + at("bitsandbytes/autograd/_functions.py", "output = F.dequantize_4bit(B, quant_state)") + OOM),
    "bitsandbytes 0.48.0": log("0.48.0", "0.47.0", "bitsandbytes=={v}\nconfig: load_in_8bit=True\n" + NAN),
    "bitsandbytes 0.45.5": log("0.46.0", "0.48.1", "bitsandbytes=={v}\n" + TRACE + "Error an illegal memory access was encountered at line 100 in file /src/csrc/ops.cu\n" + ILLEGAL),
    "bitsandbytes - ": log("0.45.2", "0.45.3", "PyTorch version: 2.7.0+cu128\nbitsandbytes=={v}\n" + TRACE +
                           "RuntimeError: the installed version of bitsandbytes was compiled without GPU support; libbitsandbytes_cuda128.so was not found\n"),
    "flash-attn 2.8.0": log("2.6.0+cu124", "2.7.0+cu126", TORCH + "flash_attn==2.8.0.post2\n" + TRACE + "ImportError: " + SITE +
                            "flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationESs\n"),
    "flash-attn 2.7.3": log("2.7.4.post1", "2.8.1", "PyTorch version: 2.7.0+cu126\nflash_attn=={v}\n" + TRACE + "ImportError: " + SITE +
                            "flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationESs\n"),
    "flash-attn 2.0.0": log("2.0.4", "2.0.5", "flash_attn=={v}\nattention: flash_attn_varlen_func\n" + NAN),
    "xformers 0.0.30": log("NVIDIA GeForce RTX 5090", "NVIDIA GeForce RTX 4090", "xformers==0.0.30\nGPU 0: {v}\n" + TRACE +
                           "CUDA error (/src/third_party/flash-attention/hopper/flash_fwd_launch_template.h:180): no kernel image is available for execution on the device\n"),
    "DeepSpeed 0.17.6": log("0.18.2", "0.18.3", "deepspeed=={v}\nengine: stage_1_and_2 optimizer\n" + NAN),
    "DeepSpeed 0.12.4": log("0.13.1", "0.12.3", "deepspeed=={v}\n" + NAN),
    "DeepSpeed 0.14.3": log("0.14.3", "0.14.2", "deepspeed=={v}\n" + NAN),
    "transformers 4.46.0": log("4.46.1", "4.45.2", "transformers=={v}\ngradient_accumulation_steps=8\n" + NAN),
    "transformers 4.47.0 sums": log("4.47.1", "4.48.1", "transformers=={v}\ngradient_accumulation_steps=8\n" + NAN),
    "transformers 4.48.0": log("4.48.0", "4.48.1", "transformers=={v}\ngradient_accumulation_steps=8\n" + NAN),
    "torchvision 0.21.0": log("0.21.0", "0.20.1", "[pip3] torch==2.5.1\n[pip3] torchvision=={v}\n" + TRACE + "RuntimeError: operator torchvision::nms does not exist\n"),
    "jaxlib 0.6.0": log("9.5.1.17", "9.8.0.87", "jaxlib==0.6.1\nnvidia-cudnn-cu12=={v}\n" + XLA_CUDNN),
    "jaxlib 0.4.31": log("9.0.0.312", "9.1.0.70", "jaxlib==0.4.33\nnvidia-cudnn-cu12=={v}\n" + XLA_CUDNN),
    "onnxruntime 1.19": log("8.9.7.29", "9.1.0.70", "onnxruntime-gpu==1.19.2\nnvidia-cudnn-cu12=={v}\n" + ORT.replace("#", "9") + TRACE + "RuntimeError: no CUDA\n"),
    "onnxruntime 1.17 ": log("9.1.0.70", "8.9.7.29", "onnxruntime-gpu==1.17.3\nnvidia-cudnn-cu12=={v}\n" + ORT.replace("#", "8") + TRACE + "RuntimeError: no CUDA\n"),
    "CUDA 12.9 has an NVVM": log("12.9.0", "13.0.1", "cuda-toolkit          {v}      h57928b3_0    conda-forge\nnumba==0.62.1\n" + at("numba/cuda/cudadrv/nvvm.py", "self.driver.check_error(err, msg)")
                                 + "numba.cuda.cudadrv.error.NvvmError: Failed to verify\nError: atomicrmw does not support operation: 'fadd'. NVVM_ERROR_INVALID_IR\n"),
    "cuDNN 9.23.0": log("9.23.1.5", "9.23.2.1", "nvidia-cudnn-cu13=={v}\nrecipe: MXFP8 attention\n" + NAN),
    "MONAI 1.4.0": log("1.4.0", "1.5.0", "MONAI version: {v}\ntransforms: RandCropByPosNegLabeld(keys=['image', 'label'])\nstep 900 loss 0.31\n"
                       "slurmstepd: error: Detected 1 oom_kill event in StepId=77.0. Some of the step tasks have been OOM Killed.\n"),
    "PyTorch 1.13.0 brings": log("1.13.1+cu117", "2.0.1+cu117", "torch=={v}\n" + TRACE + "OSError: " + SITE + "nvidia/cublas/lib/libcublas.so.11: undefined symbol: "
                                 "cublasLtGetStatusString, version libcublasLt.so.11\n"),
    "PyTorch 2.9.0 computes conv3d in bf16 and fp16 without cuDNN, about": log("2.9.0+cu128", "2.10.0+cu128", TORCH + SLOW_CONV3D),
    "PyTorch 2.9.1 computes conv3d in bf16 and fp16 without cuDNN, 10": log("9.10.2.21", "9.15.1.9", "PyTorch version: 2.9.1+cu128\n[pip3] nvidia-cudnn-cu12=={v}\n" + SLOW_CONV3D),
    "PyTorch 2.0.0": log("NVIDIA GeForce RTX 4090", "NVIDIA A100-SXM4-80GB", "PyTorch version: 2.0.0+cu118\nGPU 0: {v}\n" + at("torch/autograd/__init__.py", "Variable._execution_engine.run_backward(")
                         + "RuntimeError: Expected is_sm80 to be true, but got false.  (Could this error message be improved?)\n"),
    "CUDA - ": log("1.13.1+cu117", "2.0.1+cu118", TORCH + "GPU 0: NVIDIA GeForce RTX 4090\n" + at("torch/functional.py", "return _VF.stft(input, n_fft, hop_length)")
                   + "RuntimeError: cuFFT error: CUFFT_INTERNAL_ERROR\n"),
    "bitsandbytes 0.38.0": log("0.38.1", "0.37.2", "bitsandbytes=={v}\nconfig: load_in_8bit=True\n" + at("transformers/trainer.py", "self.model.save_pretrained(output_dir)") + OOM),
    "ultralytics 8.4": log("8.4.59", "8.3.202", "Ultralytics {v} Python-3.11.9 torch-2.8.0+cu128 CUDA:0 (NVIDIA GeForce RTX 4090, 24080MiB)\n"
                           "WARNING Skipping checkpoint save at epoch 12: EMA contains NaN/Inf\n" + TRACE +
                           "FileNotFoundError: Training completed but no checkpoint was saved. Expected runs/weights/best.pt\n"),
    "vLLM 0.2.0": log("0.2.0", "0.2.1", "vLLM version {v}\nmodel: codellama-13b-awq\n" + TRACE + "RuntimeError: CUDA error: an illegal memory access was encountered\n"),
    "TensorRT - ": packages("10.7.0", "10.8.0.43", "tensorrt {v}", "NVIDIA GeForce RTX 5090", "12.0"),
    "TensorFlow 2.16 ": log("NVIDIA GeForce RTX 5070 Ti", "NVIDIA GeForce RTX 4090", "tensorflow==2.20.0\nGPU 0: {v}\n"
                            "W tf_gpu_runtime_wrappers.cc:40] 'cuModuleLoadData(&module, data)' failed with 'CUDA_ERROR_INVALID_PTX'\n" + TRACE +
                            "tensorflow.python.framework.errors_impl.InternalError: 'cuLaunchKernel(...)' failed with 'CUDA_ERROR_INVALID_HANDLE'\n"),
    "PyTorch 2.13.0": log("3.7.1", "3.8.0", "PyTorch version: 2.13.0+cu132\n[pip3] triton=={v}\nW1201 torch/_dynamo/convert_frame.py:906] torch._dynamo hit config.recompile_limit (8)\n" + NAN),
    "transformers 4.54": log("4.55.2", "4.56.0", "transformers=={v}\nmodel: DTensor, tensor_parallel_size 8\n" + at("transformers/models/llama/modeling_llama.py", "self.mlp(hidden)") + OOM),
    "transformers 4.47.0 needs": log("4.47.0", "4.46.3", "transformers=={v}\n" + at("trl/trainer/sft_trainer.py", "return super().train(*args, **kwargs)") + OOM),
    "vLLM 0.20.1": log("0.20.1", "0.20.0", "vLLM version {v}\nGPU 0: NVIDIA B300 SXM6 AC\nmodel: openai/gpt-oss-20b (mxfp4)\n" + TRACE + ILLEGAL),
    "vLLM 0.25": log("0.25.1", "0.24.0", "vLLM version {v}\nGPU 0: NVIDIA GH200 480GB\nmodel: MiniMax-M2.7\n" + TRACE + ILLEGAL),
    "Lightning 2.1.0": log("2.1.0", "2.0.9", "lightning=={v}\nTrainer(strategy='ddp', devices=4)\nSegmentation fault (core dumped)\n"),
    "CuPy 14.0.0": packages("12.0", "12.4", "cupy-cuda12x 14.0.1\ntorch 2.9.1\ncuda {v}"),
    "vLLM 0.8.0 leaks": log("0.8.0", "0.7.3", "vLLM version {v}\nINFO api_server.py: vllm serves on port 8000\nstep 1\nslurmstepd: error: Detected 1 oom_kill event in StepId=77.0. "
                            "Some of the step tasks have been OOM Killed.\n"),
    "vLLM 0.8.0 uses": log("0.8.1", "0.7.3", "INFO Initializing a V1 LLM engine (v{v})\nvLLM version {v}\n" + at("vllm/v1/worker/gpu_model_runner.py", "self.capture_model()") + OOM),
}

# Logs with a bad version and its words, in which something else failed.
SILENT = {
    "memory, not a crash": "vLLM version 0.2.0\nmodel: codellama-13b-awq\n" + at("vllm/worker/worker.py", "self.model(") + OOM,
    "memory, not an error": "jaxlib==0.7.0\nnvidia-cudnn-cu12==9.5.1.17\nsource was compiled with: 9.8.0\n" + TRACE +
                            "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes.\n",
    "memory of the card, not of the host": "MONAI version: 1.4.0\ntransforms: RandCropByPosNegLabeld(keys=['image', 'label'])\n" + OOM,
    "memory of the host, not of the card": "PyTorch version: 2.9.0+cu128\nfirst layer: Conv3d(1, 32)\nstep 900 loss 0.31\n"
                                           "slurmstepd: error: Detected 1 oom_kill event in StepId=77.0. Some of the step tasks have been OOM Killed.\n",
    "conv2d, not conv3d": "PyTorch version: 2.9.0+cu128\n" + CONV3D.replace("conv3d", "conv2d"),
    "a good end, not wrong numbers": "deepspeed==0.14.3\nstep 1 loss 0.9\nstep 2 loss 0.7\ntraining finished, best loss 0.7\n",
}


def rows():
    lines = [line for line in (HERE.parents[1] / "data" / "regressions.tsv").read_text().splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


def row_of(key, table):
    """The row that a key means: its library and first version, and words of its text."""
    found = [row for row in table if key.startswith(f"{row['library']} {row['first']}")
             and f"{row['library']} {row['first']} {row['text']}".startswith(key)]
    if len(found) != 1:
        raise AssertionError(f"{key}: {len(found)} rows")
    return found[0]


def of_log(gpuwhy, folder, text):
    path = folder / "train.log"
    path.write_text(text)
    done = subprocess.run([gpuwhy, "explain", "--json", path], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    verdict = json_schemas.check(json.loads(done.stdout))
    return [(known["text"], known["cure"]) for known in verdict["known"]], verdict["next"]


def of_packages(gpuwhy, folder, text, card, capability):
    pairs = [line.split() for line in text.splitlines()]
    given = dict(pairs)
    answers = [f"python.package.{name}={version}" for name, version in pairs if name not in ("driver", "cuda", "cards")]
    if "cuda" in given:
        answers.append(f"python.torch.cuda={given['cuda']}")
    (folder / "proc").mkdir(exist_ok=True)
    (folder / "sys/module/nvidia").mkdir(parents=True, exist_ok=True)
    (folder / "sys/module/nvidia/version").write_text(given.get("driver", "580.95.05") + "\n")
    (folder / "python.answers").write_text("\n".join(["python.version=3.11.9"] + answers) + "\n")
    (folder / "nvml.answers").write_text(f"nvml.cards={given.get('cards', 1)}\ncard.0.name={card}\ncard.0.capability={capability}\n")
    done = subprocess.run([gpuwhy, "doctor", "--json", "--root", folder], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    page = json_schemas.check(json.loads(done.stdout))
    found = [(check["text"], check["todo"]) for check in page["checks"] if check["id"] == "known-problem"]
    return found, [cure for _, cure in found]


def report(gpuwhy, kind, text, value):
    """Return the (sentence, cure) pairs that are reported for a case with this value, and the steps."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if kind == "log":
            return of_log(gpuwhy, folder, text.replace("{v}", value))
        return of_packages(gpuwhy, folder, *(part.replace("{v}", value) for part in text))


def differences(gpuwhy, key, row, case):
    kind, bad, good, text = case
    found, steps = report(gpuwhy, kind, text, bad)
    if not any(row["text"] in said for said, _ in found) or row["cure"] not in steps:
        yield f"{key} with {bad}: not reported; reported: {found}"
    for words in row["withdraws"].split("|"):
        if words != "-" and any(words in step for step in steps if step != row["cure"]):
            yield f"{key} with {bad}: {words} is still advised: {steps}"
    found, _ = report(gpuwhy, kind, text, good)
    if any(row["text"] in said for said, _ in found):
        yield f"{key} with {good}: reported, although this is the healthy twin"


def unfit(gpuwhy):
    for name, text in SILENT.items():
        found, _ = report(gpuwhy, "log", text, "")
        if found:
            yield f"{name}: {found}"


def accidents(gpuwhy):
    """Yield the logs of this folder in which a row is found by accident."""
    for path in sorted(HERE.glob("*/*.log")):
        done = subprocess.run([gpuwhy, "explain", "--json", path], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        for known in json.loads(done.stdout)["known"]:
            yield f"{path.name}: {known['text']}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpuwhy", default="build/gpuwhy")
    gpuwhy = parser.parse_args().gpuwhy
    table, wrong = rows(), []
    keys = {key: row_of(key, table) for key in CASES}
    for row in table:
        if row not in keys.values():
            wrong.append(f"{row['library']} {row['first']} {row['text']}: no case")
    for key, row in keys.items():
        wrong += differences(gpuwhy, key, row, CASES[key])
    wrong += unfit(gpuwhy)
    wrong += accidents(gpuwhy)
    print(f"{len(table)} rows, {len(CASES)} cases, {len(wrong)} wrong")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
