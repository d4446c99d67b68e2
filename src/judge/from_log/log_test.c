/* Judges small logs and checks cause, certainty, place, evidence and advice. */
#include "gw_unit_test.h"
#include "judge_testlib.h"

#include "gw_text.h"

#define TRACE                 "Traceback (most recent call last):\n"
#define IN(file, line, where) "  File \"" file "\", line " #line ", in " where "\n    x\n"
#define TORCH_LIB             "/usr/lib/python3/site-packages/torch/nn/modules/module.py"
#define OOM                   "torch.cuda.OutOfMemoryError: CUDA out of memory. "
#define JAX_OOM                                                                                                        \
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 5520758552 "     \
    "bytes.\n"
#define NEW_SUMS                                                                                                       \
    "Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 14.56 GiB of which 120.00 MiB is free. Process 1 has "  \
    "14.44 GiB memory in use. Of the allocated memory 13.90 GiB is allocated by PyTorch, and 100.00 MiB is reserved "  \
    "by PyTorch but unallocated.\n"
#define OLD_SUMS                                                                                                       \
    "Tried to allocate 2.00 GiB (GPU 0; 14.56 GiB total capacity; 6.10 GiB already allocated; 1.00 GiB free; "         \
    "13.20 GiB reserved in total by PyTorch)\n"
#define NEW_CACHED                                                                                                     \
    "Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 14.56 GiB of which 200.00 MiB is free. Process 1 has "  \
    "14.36 GiB memory in use. Of the allocated memory 6.10 GiB is allocated by PyTorch, and 8.00 GiB is reserved "     \
    "by PyTorch but unallocated.\n"

/* `says`: texts that the headline, the evidence or the next steps must contain, separated by |. `silent`: texts that
 * they must not contain. */
typedef struct log_row {
    const char *name, *log, *cause, *where, *says, *silent;
    gw_certainty certainty_most; /* the maximum certainty */
} log_row;

static const log_row rows[] = {
    {"the user's innermost frame, not the library's",
     TRACE IN("train.py", 88, "main") IN("train.py", 41, "step") IN(TORCH_LIB, 1501, "_call_impl") OOM NEW_SUMS,
     "gpu-oom-capacity", "train.py:41 in step",
     "the exception was raised at train.py:41 in step|At train.py:41 in step: |the card has 14.56 GiB", "",
     GW_SUPPORTED},
    {"PyTorch's own limit, on a card with room",
     TRACE IN("train.py", 41, "step") OOM "Tried to allocate 200.00 MiB. GPU 0 has a total capacity of 139.80 GiB of "
                                          "which 134.98 GiB is free. Process 1 has "
                                          "4.82 GiB memory in use. 2.80 GiB allowed; Of the allocated memory 2.70 GiB "
                                          "is allocated by PyTorch, and 10.00 MiB "
                                          "is reserved by PyTorch but unallocated.\n",
     "gpu-oom-capacity", "train.py:41 in step",
     "PyTorch's own limit of 2.80 GiB (set_per_process_memory_fraction) was reached|134.98 GiB of the card's 139.80 "
     "GiB",
     "other-process", GW_SUPPORTED},
    {"PyTorch's own limit, on a card without room: it was not that",
     TRACE IN("train.py", 41, "step") OOM
     "Tried to allocate 200.00 MiB. GPU 0 has a total capacity of 14.56 GiB of which 120.00 MiB is free. Process 1 has "
     "14.44 GiB memory in use. 14.40 GiB allowed; Of the allocated memory 13.90 GiB is allocated by PyTorch, and "
     "100.00 "
     "MiB is reserved by PyTorch but unallocated.\n",
     "gpu-oom-capacity", "train.py:41 in step", "", "set_per_process", GW_SUPPORTED},
    {"the program itself is in the list of processes, as in a container",
     TRACE IN("train.py", 41, "step") OOM
     "Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 39.56 GiB of which 4.00 MiB is free. Process 4000 has "
     "39.55 GiB memory in use. Of the allocated memory 30.10 GiB is allocated by PyTorch, and 200.00 MiB is reserved "
     "by PyTorch but unallocated.\n",
     "gpu-oom-capacity", "train.py:41 in step", "", "other-process|4000 is", GW_SUPPORTED},
    {"another process is in the list of processes",
     TRACE IN("train.py", 41, "step") OOM
     "Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 39.56 GiB of which 4.00 MiB is free. Process 4000 has "
     "30.00 GiB memory in use. Process 4001 has 9.50 GiB memory in use. Of the allocated memory 8.50 GiB is allocated "
     "by PyTorch, and 200.00 MiB is reserved by PyTorch but unallocated.\n",
     "gpu-oom-other-process", "train.py:41 in step", "the message names process 4000", "", GW_SUPPORTED},
    {"sums in the lines below the message",
     TRACE IN("train.py", 41,
              "step") "torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)\n"
                      "Currently allocated     : 12.43 GiB\nRequested               : 4.07 GiB\nDevice limit           "
                      " : 16.00 GiB\n"
                      "Free (according to CUDA): 0 bytes\n",
     "gpu-oom-capacity", "train.py:41 in step", "12.43 GiB of 16.00 GiB when it requested 4.07 GiB more: together", "",
     GW_SUPPORTED},
    {"sums that no card can have",
     TRACE IN("train.py", 41, "step") OOM
     "Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 39.56 GiB of which 4.00 MiB is free. Of the allocated "
     "memory 50.32 GiB is allocated by PyTorch, and 200.00 MiB is reserved by PyTorch but unallocated.\n",
     "gpu-oom-capacity", "train.py:41 in step", "the numbers of the message contradict each other", "", GW_HYPOTHESIS},
    {"live memory and the request are together more than the card",
     TRACE IN("train.py", 41, "step") OOM
     "Tried to allocate 9.80 GiB (GPU 0; 14.76 GiB total capacity; 9.94 GiB already allocated; 3.50 GiB free; "
     "10.10 GiB reserved in total by PyTorch)\n",
     "gpu-oom-capacity", "train.py:41 in step", "9.94 GiB of 14.76 GiB when it requested 9.80 GiB more: together", "",
     GW_SUPPORTED},
    {"a folder of the user's that is called torch",
     TRACE IN("/data/torch/train.py", 7, "main") IN(TORCH_LIB, 1501, "_call_impl") OOM NEW_SUMS, "gpu-oom-capacity",
     "/data/torch/train.py:7 in main", "", "", GW_SUPPORTED},
    {"a chained exception: the first one's line",
     TRACE IN("train.py", 41, "step") OOM NEW_SUMS
     "\nDuring handling of the above exception, another exception occurred:\n\n" TRACE IN(
         "train.py", 99, "save") "RuntimeError: could not save\n",
     "gpu-oom-capacity", "train.py:41 in step", "", "", GW_SUPPORTED},
    {"several ranks: the traceback of the rank that failed",
     "[rank1]: " TRACE "[rank0]: " TRACE "[rank1]:   File \"train.py\", line 41, in step\n"
     "[rank0]:   File \"train.py\", line 60, in wait\n"
     "[rank1]: " OOM NEW_SUMS,
     "gpu-oom-capacity", "train.py:41 in step", "(rank 1)", "", GW_SUPPORTED},
    {"a notebook of today",
     "OutOfMemoryError                          " TRACE "Cell In[7], line 3\n      1 model = build()\n"
     "----> 3 train(model)\n\nFile /usr/lib/python3/site-packages/torch/nn/modules/module.py:1501, in "
     "Module._call_impl(self, *args)\n-> 1501 return forward_call()\n" OOM NEW_SUMS,
     "gpu-oom-capacity", "In [7]:3", "", "", GW_SUPPORTED},
    {"a notebook of old, with a file of the user's",
     "RuntimeError                              " TRACE "<ipython-input-5-0a1b2c3d> in <module>\n      1 import x\n"
     "----> 2 train()\n\n~/project/model.py in forward(self, x)\n---> 41 y = self.conv(x)\n"
     "RuntimeError: CUDA error: device-side assert triggered\n",
     "device-assert-index", "~/project/model.py:41 in forward", "reported late", "", GW_SUPPORTED},
    {"a warning about the card's architecture, and a kernel that ran",
     "UserWarning: NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch "
     "installation.\n" TRACE IN("train.py", 41, "step") "RuntimeError: CUDA error: an illegal memory access was "
                                                        "encountered\n",
     "illegal-address", "train.py:41 in step", "", "", GW_SUPPORTED},
    {"a warning about an old card, and a card that is full",
     "UserWarning: Found GPU0 Quadro K2000 which is of cuda capability 3.0. PyTorch no longer supports this GPU "
     "because "
     "it is too old.\n" TRACE IN("train.py", 41, "step") OOM NEW_SUMS,
     "gpu-oom-capacity", "train.py:41 in step", "", "", GW_SUPPORTED},
    {"a warning about the card's architecture, and no kernel for it",
     "UserWarning: NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch "
     "installation.\n" TRACE IN("train.py", 41, "step") "RuntimeError: CUDA error: no kernel image is available for "
                                                        "execution on the device\n",
     "arch-not-in-binary", "train.py:41 in step", "", "", GW_SUPPORTED},
    {"a warning about the card's architecture, and an echo that shows no kernel",
     "UserWarning: NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch "
     "installation.\n" TRACE IN("train.py", 41, "step") "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED\n",
     "arch-not-in-binary", "train.py:41 in step", "", "", GW_SUPPORTED},
    {"a notice of the start, and an exception whose second line names the problem",
     "2026-03-02 10:11:12.1: W external/local_xla/nvptx_libdevice_path.cc:40] Can't find libdevice directory "
     "${CUDA_DIR}/nvvm/libdevice.\n" TRACE IN(
         "train.py", 41, "step") "tensorflow.python.framework.errors_impl.InternalError: Graph execution error:\n"
                                 "libdevice not found at ./libdevice.10.bc [Op:__inference_one_step]\n",
     "jit-library-missing", "train.py:41 in step", "", "", GW_SUPPORTED},
    {"a notice of the start, and an exception of the program",
     "2026-03-02 10:11:12.1: W external/local_xla/nvptx_libdevice_path.cc:40] Can't find libdevice directory "
     "${CUDA_DIR}/nvvm/libdevice.\n" TRACE IN("train.py", 41, "step") "RuntimeError: the label file is empty\n",
     "script-exception", "train.py:41 in step", "", "", GW_SUPPORTED},
    {"an exception of C++ that has several reasons, and its text",
     "terminate called after throwing an instance of 'rmm::bad_alloc'\n  what():  std::bad_alloc: CUDA error at: "
     "cuda_memory_resource.hpp:70: cudaErrorIllegalAddress an illegal memory access was encountered\n",
     "illegal-address", "", "", "", GW_SUPPORTED},
    {"an exception of C++ that has several reasons, and another text",
     "terminate called after throwing an instance of 'rmm::bad_alloc'\n  what():  std::bad_alloc: RMM failure at: "
     "pool_memory_resource.hpp:257: Maximum pool size exceeded\n",
     "gpu-oom-capacity", "", "", "", GW_SUPPORTED},
    {"an address computed wrongly",
     TRACE IN("train.py", 41, "step") "RuntimeError: CUDA error: operation not supported on global/shared address "
                                      "space\n",
     "illegal-address", "train.py:41 in step", "compute-sanitizer", "trap and assert", GW_SUPPORTED},
    {"a size that no card has",
     TRACE IN("train.py", 41, "step") OOM
     "Tried to allocate 8388608.00 GiB. GPU 0 has a total capacity of 14.56 GiB of which 10.00 GiB is free. Of the "
     "allocated memory 1.00 GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated.\n",
     "gpu-oom-capacity", "train.py:41 in step", "the size was negative or overflowed|how this size is computed",
     "activations shrink", GW_ESTABLISHED},
    {"a size that this card alone lacks",
     TRACE IN("train.py", 41, "step") OOM
     "Tried to allocate 600.00 GiB. GPU 0 has a total capacity of 14.56 GiB of which 10.00 GiB is free. Of the "
     "allocated memory 1.00 GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated.\n",
     "gpu-oom-capacity", "train.py:41 in step", "is larger than the", "how this size is computed", GW_ESTABLISHED},
    {"a native stack",
     TRACE IN(TORCH_LIB, 1501, "_call_impl") "RuntimeError: CUDA error: an illegal memory access was encountered\n"
                                             "frame #0: c10::Error::Error() + 0x57 (0x7f00 in /x/torch/lib/libc10.so)\n"
                                             "frame #1: my::launch(at::Tensor) + 0x1b (0x7f01 in "
                                             "/data/ext/_C.cpython-310-x86_64-linux-gnu.so)\n",
     "illegal-address", "/data/ext/_C.cpython-310-x86_64-linux-gnu.so in my::launch(at::Tensor)", "", "", GW_SUPPORTED},
    {"no line of the program itself", "CUDA out of memory. " NEW_SUMS, "gpu-oom-capacity", "", "", "At ", GW_SUPPORTED},
    {"an assertion: the fault is earlier than the line",
     "Loss.cu:250: nll_loss: block: [0,0,0], thread: [4,0,0] Assertion `t >= 0 && t < n_classes` failed.\n" TRACE IN(
         "train.py", 41, "step") "RuntimeError: CUDA error: device-side assert triggered\n",
     "device-assert-index", "train.py:41 in step", "reported late", "", GW_ESTABLISHED},

    /* The program survived the first problem, and another exception ended it. So no cause may be established. */
    {"the kernel killed another program",
     "Out of memory: Killed process 812 (chrome) total-vm:9000000kB, anon-rss:8000000kB, file-rss:0kB, "
     "shmem-rss:0kB\n" TRACE IN("train.py", 41, "step") "KeyError: 'label'\n",
     NULL, "train.py:41 in step", "", "", GW_SUPPORTED},
    {"two versions of cuDNN that were no reason",
     "E0000 cuda_dnn.cc:500] Loaded runtime CuDNN library: 8.5.0 but source was compiled with: 8.6.0.\n" TRACE IN(
         "train.py", 41, "step") "KeyError: 'label'\n",
     NULL, "train.py:41 in step", "", "", GW_SUPPORTED},
    {"a forked worker that was not needed",
     "Process Process-1:\n" TRACE IN(
         "worker.py", 7,
         "work") "RuntimeError: Cannot re-initialize CUDA in forked "
                 "subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method\n" TRACE IN(
                     "train.py", 41, "step") "KeyError: 'label'\n",
     "script-exception", "train.py:41 in step", "", "", GW_SUPPORTED},
    {"a configuration that a search skipped",
     "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 262144, Hardware limit: 232448. "
     "Reducing block sizes or `num_stages` may help.\n" TRACE IN("train.py", 41, "step") "KeyError: 'label'\n",
     NULL, "train.py:41 in step", "", "", GW_SUPPORTED},
    {"a request that was tried in vain",
     OOM
     "Tried to allocate 600.00 GiB. GPU 0 has a total capacity of 14.56 GiB of which 10.00 GiB is free. Of the "
     "allocated memory 1.00 GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated.\n" TRACE
         IN("train.py", 41, "step") "KeyError: 'label'\n",
     NULL, "train.py:41 in step", "", "", GW_SUPPORTED},

    {"what belongs to the cause is said beside it",
     "step 3 loss: nan\n" TRACE IN("train.py", 41, "step") "ValueError: Loss is nan, stopping training\n",
     "numeric-divergence", "train.py:41 in step", "train.log:1: step 3 loss: nan", "", GW_SUPPORTED},
    {"the numbers of a watchdog",
     "[rank1]:[E1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=4) ran\n"
     "[rank1]:[E1] Timeout at NCCL work: 7, last enqueued NCCL work: 9, last completed NCCL work: 6.\n",
     "peer-died", "", "last completed NCCL work: 6", "", GW_SUPPORTED},

    {"a handle fails although memory is free",
     "E0514 15:42:22 cuda_dnn.cc:532] Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR\n"
     "E0514 15:42:22 cuda_dnn.cc:536] Memory usage: 16601251840 bytes free, 16928342016 bytes total.\n" TRACE IN(
         "train.py", 41, "step") "jaxlib.xla_extension.XlaRuntimeError: FAILED_PRECONDITION: DNN library "
                                 "initialization failed. Look at the errors above for more details.\n",
     "library-version-mismatch", "train.py:41 in step", "15.46 GiB of the card's 15.77 GiB was free", "gpu-oom",
     GW_HYPOTHESIS},
    {"a handle fails, and no memory is free",
     "E0514 15:42:22 cuda_dnn.cc:532] Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR\n"
     "E0514 15:42:22 cuda_dnn.cc:536] Memory usage: 60125184 bytes free, 16928342016 bytes total.\n" TRACE IN(
         "train.py", 41, "step") "jaxlib.xla_extension.XlaRuntimeError: FAILED_PRECONDITION: DNN library "
                                 "initialization failed. Look at the errors above for more details.\n",
     "gpu-oom-library-handle", "train.py:41 in step", "", "memory was not the reason", GW_HYPOTHESIS},
    {"TensorFlow's pool leaves nothing for a handle",
     "E cuda_driver.cc:806] failed to allocate 11.40G (12238104064 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out "
     "of memory\nE cuda_dnn.cc:353] Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR\n",
     "gpu-oom-library-handle", "", "the pool had taken the memory", "", GW_HYPOTHESIS},
    {"TensorFlow's pool, and no handle",
     "E cuda_driver.cc:806] failed to allocate 11.40G (12238104064 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out "
     "of memory\n",
     "gpu-oom-capacity", "", "", "the pool had taken the memory", GW_HYPOTHESIS},
    {"a trial after others",
     "[I 2021-02-01 15:24:40,640] Trial 7 finished with value: 0.81 and parameters: {'lr': 1e-05}.\n" TRACE IN(
         "search.py", 41, "objective") "RuntimeError: CUDA out of memory. Tried to allocate 16.00 MiB (GPU 0; 14.76 "
                                       "GiB total capacity; 13.66 GiB already allocated; 13.75 MiB free; 13.83 GiB "
                                       "reserved in total by PyTorch)\n",
     "gpu-oom-leak", "search.py:41 in objective", "trial 7 ended before in the same process", "", GW_HYPOTHESIS},
    {"the first trial",
     TRACE IN("search.py", 41, "objective") "RuntimeError: CUDA out of memory. Tried to allocate 16.00 MiB (GPU 0; "
                                            "14.76 GiB total capacity; 13.66 GiB already allocated; 13.75 MiB free; "
                                            "13.83 GiB reserved in total by PyTorch)\n",
     "gpu-oom-capacity", "search.py:41 in objective", "", "ended before in the same process", GW_SUPPORTED},
    {"a trial after others, larger than the card",
     "Trial 7 Complete [00h 01m 05s]\n" TRACE IN("search.py", 41, "objective") OOM
     "Tried to allocate 600.00 GiB. GPU 0 has a total capacity of 14.56 GiB of which 10.00 GiB is free. Of the "
     "allocated memory 1.00 GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated.\n",
     "gpu-oom-capacity", "search.py:41 in objective", "", "ended before in the same process", GW_ESTABLISHED},
    {"ONNX Runtime's arena",
     "[E:onnxruntime:, sequential_executor.cc:494 ExecuteKernel] Non-zero status code returned while running Conv "
     "node. Status Message: /core/framework/bfc_arena.cc:368 void* onnxruntime::BFCArena::AllocateRawInternal(size_t, "
     "bool, onnxruntime::Stream*, bool, onnxruntime::WaitNotificationFn) Failed to allocate memory for requested "
     "buffer of size 15728896\n",
     "gpu-oom-capacity", "", "gpu_mem_limit", "larger than any card", GW_HYPOTHESIS},
    {"ONNX Runtime, an impossible size",
     "BFCArena::AllocateRawInternal(size_t, bool) Failed to allocate memory for requested buffer of size "
     "4585490524328388608\n",
     "gpu-oom-capacity", "", "larger than any card|Check how this size is computed", "smaller batch", GW_SUPPORTED},
    {"PyTorch, an impossible size without a number", OOM "Tried to allocate more than 1EB memory.\n",
     "gpu-oom-capacity", "", "larger than any card|Check how this size is computed", "smaller batch", GW_SUPPORTED},

    /* versions */
    {"before 2.1, told",
     "PyTorch version: 1.13.1\n" TRACE IN("train.py", 41, "step") "RuntimeError: CUDA out of memory. " OLD_SUMS,
     "gpu-oom-fragmentation", "train.py:41 in step", "PyTorch is 1.13.1|max_split_size_mb:128",
     "expandable_segments:True", GW_SUPPORTED},
    {"before 2.1, by the form of the message",
     TRACE IN("train.py", 41, "step") "RuntimeError: CUDA out of memory. " OLD_SUMS, "gpu-oom-fragmentation",
     "train.py:41 in step", "PyTorch is 2.0 or older|max_split_size_mb:128", "expandable_segments:True", GW_SUPPORTED},
    {"2.4", "torch==2.4.0\n" TRACE IN("train.py", 41, "step") OOM NEW_CACHED, "gpu-oom-fragmentation",
     "train.py:41 in step", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "=max_split_size_mb", GW_SUPPORTED},
    {"2.9: the new name is ignored", "torch==2.9.1\n" TRACE IN("train.py", 41, "step") OOM NEW_CACHED,
     "gpu-oom-fragmentation", "train.py:41 in step",
     "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True|2.9.1 ignores PYTORCH_ALLOC_CONF", "", GW_SUPPORTED},
    {"2.12: the new name", "torch==2.12.0\n" TRACE IN("train.py", 41, "step") OOM NEW_CACHED, "gpu-oom-fragmentation",
     "train.py:41 in step", "Set PYTORCH_ALLOC_CONF=expandable_segments:True", "PYTORCH_CUDA_ALLOC_CONF", GW_SUPPORTED},
    {"no version: the fix says from when", TRACE IN("train.py", 41, "step") OOM NEW_CACHED, "gpu-oom-fragmentation",
     "train.py:41 in step", "expandable_segments:True (PyTorch 2.1 or later)", "", GW_SUPPORTED},
    {"another package's version is not the framework's",
     "transformers==4.30.0\n" TRACE IN("train.py", 41, "step") OOM NEW_CACHED, "gpu-oom-fragmentation",
     "train.py:41 in step", "", "PyTorch is 4.30", GW_SUPPORTED},
    {"an old TensorFlow has no policy",
     "tensorflow==1.15.0\nAllocator (GPU_0_bfc) ran out of memory trying to allocate 2.20GiB\n" TRACE IN(
         "train.py", 41, "step") "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating "
                                 "tensor with shape[1024,256] and type float\n",
     NULL, "train.py:41 in step", "TensorFlow is 1.15.0", "set_global_policy", GW_SUPPORTED},
    {"JAX's words", TRACE IN("train.py", 41, "step") JAX_OOM, NULL, "train.py:41 in step", "jax.checkpoint", "tf.",
     GW_SUPPORTED},
    {"jaxlib has TensorFlow's folder in its own, and is JAX",
     TRACE IN("train.py", 41,
              "step") "RuntimeError: external/org_tensorflow/tensorflow/compiler/xla/python/local_client.cc:672] "
                      "Execution of replica 0 failed: Resource exhausted: Out of memory while trying to allocate "
                      "5520758552 bytes.\n",
     NULL, "train.py:41 in step", "jax.checkpoint", "tf.recompute_grad", GW_SUPPORTED},
    {"JAX's own word on a library, without its name",
     "Outdated cuDNN installation found.\nVersion JAX was built against: 9101\n", "library-version-mismatch", "",
     "\"jax[cuda13]\"", "exists from 0.7 on", GW_SUPPORTED},
    {"a JAX before jax[cuda13]", "jax==0.4.35\nOutdated cuDNN installation found.\n", "library-version-mismatch", "",
     "JAX is 0.4.35|(\"jax[cuda13]\" exists from 0.7 on)", "or \"jax[cuda13]\"", GW_SUPPORTED},
    {"a JAX before jax[cuda12]", "jax==0.4.20\nOutdated cuDNN installation found.\n", "library-version-mismatch", "",
     "jax[cuda12_pip]", "\"jax[cuda13]\"", GW_SUPPORTED},
    {"a JAX whose capture is broken",
     "jax==0.6.0\n" TRACE IN(
         "train.py", 41,
         "step") "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: "
                 "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: operation failed due to a previous error during capture\n",
     "graph-capture-violation", "train.py:41 in step", "--xla_gpu_enable_command_buffer=", ".item()", GW_SUPPORTED},
    {"TensorFlow's messages from XLA stay TensorFlow's",
     "2024-01-01 external/local_xla/xla/stream_executor/cuda/cuda_dnn.cc:1] x\ntensorflow==2.15.0\n" TRACE IN(
         "train.py", 41, "step") "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating "
                                 "tensor with shape[1024,256] and type float\n",
     NULL, "train.py:41 in step", "TensorFlow is 2.15.0", "jax.", GW_SUPPORTED},

    /* cards */
    {"a card without bfloat16", "| 0  Tesla T4            On  |\n" TRACE IN("train.py", 41, "step") OOM NEW_SUMS,
     "gpu-oom-capacity", "train.py:41 in step", "the card is a Tesla T4|Tesla T4 does not support bfloat16",
     "torch.bfloat16)", GW_SUPPORTED},
    {"a card with bfloat16",
     "| 0  NVIDIA A100-SXM4-40GB            On  |\n" TRACE IN("train.py", 41, "step") OOM NEW_SUMS, "gpu-oom-capacity",
     "train.py:41 in step", "the card is a NVIDIA A100|torch.bfloat16", "does not support bfloat16", GW_SUPPORTED},

    /* which of several lines explains the end */
    {"a rank that a signal ended, and its peer",
     "[rank0]: " TRACE
     "[rank0]:   File \"train.py\", line 9, in step\n[rank0]: RuntimeError: Connection closed by peer "
     "[127.0.0.1]:2000\ntrain.py FAILED\n  rank      : 0 (local_rank: 0)\n  exitcode  : -15 (pid: 11)  (SIGTERM)\nRoot "
     "Cause "
     "(first observed failure):\n  rank      : 1 (local_rank: 1)\n  exitcode  : -11 (pid: 12)  (SIGSEGV)\n",
     "host-crash-of-process", "train.py:9 in step", "", "", GW_SUPPORTED},
    {"an exception, and then the launcher's signal",
     TRACE IN("train.py", 41,
              "load") "AttributeError: 'NoneType' object has no attribute 'astype'\n\nFatalError: `Termination "
                      "signal` is detected by the operating system.\n  [SignalInfo: *** SIGTERM (@0x3e8) received by "
                      "PID 12 ***]\n",
     "script-exception", "train.py:41 in load", "", "", GW_SUPPORTED},
    {"a source line that names a signal",
     TRACE
     "  File \"train.py\", line 15, in main\n    signal.signal(signal.SIGTERM, stop)\n    ^^^^^^\nNameError: name "
     "'signal' is not defined\n",
     "script-exception", "train.py:15 in main", "", "", GW_SUPPORTED},
    {"kernels compiled at the start, and a job that was cancelled",
     "W gpu_device.cc:2348] TensorFlow was not built with CUDA kernel binaries compatible with compute capability "
     "9.0.\n"
     "slurmstepd: error: *** JOB 267039 ON node1 CANCELLED AT 2025-08-21T02:53:05 ***\n",
     "killed-by-scheduler-or-user", "", "", "", GW_SUPPORTED},
    {"kernels compiled at the start, and a handle that is invalid",
     "W gpu_device.cc:2348] TensorFlow was not built with CUDA kernel binaries compatible with compute capability "
     "12.0.\n"
     "CUDA_ERROR_INVALID_HANDLE\n",
     "arch-not-in-binary", "", "", "", GW_SUPPORTED},
    {"TensorFlow's words about the host's memory",
     TRACE IN("train.py", 3,
              "main") "ResourceExhaustedError: OOM when allocating tensor with shape[1048576,65536] and type float "
                      "on /job:localhost/replica:0/task:0/device:CPU:0 by allocator mklcpu\n",
     "script-exception", "train.py:3 in main", "", "gpu-oom", GW_HYPOTHESIS},
    {"an Xid that an earlier one caused",
     "NVRM: Xid (PCI:0000:dc:00): 45, pid=18, name=python3, Ch 00000001 caused by previous Xid 149\n", "nvlink-fault",
     "", "", "", GW_SUPPORTED},
    {"a number in hexadecimal", "CuError(CUDA.cudaError_enum(0x000002bc))\n", "illegal-address", "", "", "",
     GW_SUPPORTED},
    {"a loss scale that no longer helps",
     "1/90 loss 2.0\n[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 4, reducing to 2\n",
     "numeric-divergence", "", "", "", GW_SUPPORTED},

    {"no memory for a context",
     "F statusor.cc:34] failed call to cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY: out of memory; total "
     "memory\n",
     "gpu-oom-other-process", "", "no memory for the program's context", "", GW_HYPOTHESIS},
    {"a hint that is a warning, and the end",
     "2024-05-15 08:43:01.440211: I external/local_tsl/tsl/cuda/cudart_stub.cc:32] Could not find cuda drivers on your "
     "machine, GPU will not be "
     "used.\n"
     "Killed\n",
     "host-oom-kill", "", "", "", GW_HYPOTHESIS},
    {"cards that are hidden on purpose, and an exception",
     "E cuda_platform.cc:51] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected\n" TRACE
         IN("main.py", 21, "main") "ValueError: Attempt to convert a value to a Tensor.\n",
     "script-exception", "main.py:21 in main", "", "", GW_SUPPORTED},
    {"cards that are missing, and an exception about it",
     "E cuda_platform.cc:51] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected\n" TRACE
         IN("main.py", 21, "main") "InvalidArgumentError: Cannot assign a device for operation v: /device:GPU:0\n",
     "no-device-visible", "main.py:21 in main", "", "", GW_SUPPORTED},
    {"a status in source code that does not compile",
     "417     if (err == CUDNN_STATUS_NOT_SUPPORTED) {\n" TRACE IN(
         "a.py", 3, "main") "Exception: ('The following error happened "
                            "while compiling the node', 'nvcc return status', 2)\n",
     "library-version-mismatch", "a.py:3 in main", "", "", GW_HYPOTHESIS},
    {"a vague message, and a clear one after it",
     "terminate called after throwing an instance of 'std::system_error'\n  what():  Transport endpoint is not "
     "connected\n"
     "  what():  CUDA error: uncorrectable NVLink error detected during the execution\n",
     "nvlink-fault", "", "", "", GW_SUPPORTED},

    /* unknown messages about the GPU: a hypothesis from their words */
    {"unknown words about versions",
     TRACE IN("train.py", 3, "main") "RuntimeError: the CUDA parts of this wheel have incompatible versions\n",
     "library-version-mismatch", "train.py:3 in main", "its words suggest this cause", "", GW_HYPOTHESIS},
    {"unknown words about a library",
     TRACE IN("train.py", 3, "main") "ImportError: the CUDA plugin fancy.so could not be used: no such file\n",
     "library-not-found", "train.py:3 in main", "its words suggest this cause", "", GW_HYPOTHESIS},
    {"unknown words about a shape",
     TRACE IN("train.py", 3, "main") "ValueError: the GPU kernel needs a tensor of another shape\n", "script-exception",
     "train.py:3 in main", "", "", GW_HYPOTHESIS},

    /* exceptions of the program itself */
    {"an exception of the program's own", TRACE IN("train.py", 3, "<module>") "ValueError: no such mode\n",
     "script-exception", "train.py:3 in <module>", "", "", GW_SUPPORTED},
};

static gw_verdict *judge(const char *text)
{
    gw_verdict *verdict = NULL;
    gw_log *log = log_of("train.log", text);
    assert_int_equal(gw_judge_log(log, &verdict, NULL), GW_OK);
    gw_log_free(log);
    return verdict;
}

static bool says(const gw_verdict *verdict, const char *part)
{
    return why_has(verdict, part) || list_has(&verdict->next, part) ||
           (verdict->where != NULL && strstr(verdict->where->what, part) != NULL);
}

static void check_parts(const log_row *row, const gw_verdict *verdict, const char *parts, bool wanted)
{
    char part[256];
    for (const char *at = parts; *at != '\0';) {
        size_t bytes = strcspn(at, "|");
        snprintf(part, sizeof part, "%.*s", (int)bytes, at);
        if (says(verdict, part) != wanted)
            fail_msg("%s: %s says \"%s\"", row->name, wanted ? "nothing" : "something", part);
        at += bytes + (at[bytes] != '\0');
    }
}

/* End the test as skipped if this build has no matcher for text logs. */
static void need_logs(void)
{
    if (gw_logs_are_supported())
        return;
    print_message("skipped: this build reads no text logs\n");
    skip();
}

GW_TEST(logs_are_judged_with_their_place_and_in_their_words)
{
    need_logs();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const log_row *row = &rows[i];
        gw_verdict *verdict = judge(row->log);
        if (verdict->status != GW_VERDICT_FAULT)
            fail_msg("%s: %s", row->name, gw_verdict_status_text(verdict->status));
        if (row->cause != NULL && strcmp(verdict->cause, row->cause) != 0)
            fail_msg("%s: %s", row->name, verdict->cause);
        if (verdict->certainty > row->certainty_most)
            fail_msg("%s: %s", row->name, gw_certainty_text(verdict->certainty));
        const char *where = verdict->where != NULL ? verdict->where->frame[verdict->where->user].text : "";
        if (strcmp(where, row->where) != 0)
            fail_msg("%s: at \"%s\"", row->name, where);
        assert_true((verdict->where == NULL) == (verdict->where_reason != NULL));
        check_parts(row, verdict, row->says, true);
        check_parts(row, verdict, row->silent, false);
        gw_verdict_free(verdict);
    }
}

GW_TEST(the_callers_of_the_place_are_the_users)
{
    need_logs();
    gw_verdict *verdict = judge(TRACE IN("main.py", 5, "<module>") IN("train.py", 88, "main") IN("train.py", 41, "step")
                                    IN(TORCH_LIB, 1501, "_call_impl") OOM NEW_SUMS);
    assert_int_equal(verdict->where->frame_count, 3);
    assert_string_equal(verdict->where->frame[1].text, "train.py:88 in main");
    assert_string_equal(verdict->where->frame[2].text, "main.py:5 in <module>");
    gw_verdict_free(verdict);
}

/* Hostile input, with invalid frames, line numbers or versions, must do no harm. */
GW_TEST(strange_logs_do_no_harm)
{
    static const char *const logs[] = {
        TRACE "  File \"\", line 0, in \nRuntimeError: CUDA out of memory\n",
        TRACE "  File \"x.py\", line 99999999999999999999, in f\nRuntimeError: CUDA out of memory\n",
        TRACE "----> 3 x\nRuntimeError: CUDA out of memory\n",
        "torch==999999.1.2.3\n" TRACE IN("a.py", 1, "f") OOM NEW_CACHED,
        "torch==2.\n" OOM NEW_CACHED,
        "RuntimeError: CUDA error: an illegal memory access was encountered\nframe #99999999999: + 0x (in )\n",
        "----> 7 \nCell In[], line\n<ipython-input--> in \n" TRACE "ValueError\n",
    };
    need_logs();
    for (size_t i = 0; i < sizeof logs / sizeof logs[0]; i++) {
        gw_verdict *verdict = judge(logs[i]);
        assert_non_null(verdict->headline);
        gw_verdict_free(verdict);
    }
    char *deep = malloc(1 << 20);
    assert_non_null(deep);
    size_t bytes = (size_t)sprintf(deep, TRACE);
    while (bytes < (1 << 20) - 1024)
        bytes += (size_t)sprintf(deep + bytes, "  File \"train.py\", line %zu, in f\n", bytes);
    sprintf(deep + bytes, "RecursionError: maximum recursion depth exceeded\n");
    gw_verdict *verdict = judge(deep);
    assert_non_null(verdict->headline);
    gw_verdict_free(verdict);
    free(deep);
}

/* A warning is a fault if the log ends soon after it. If many lines follow, it is no fault, unless the log ends with an
 * exception or a bad exit. */
GW_TEST(what_the_output_outlives_is_no_fault)
{
    static const char *const warnings[] = {
        "W dso_loader.cc:64] Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot "
        "open",
        "E cuda_driver.cc:266] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected",
        "WARNING: Retrying after connection broken by 'ConnectionResetError(104, 'Connection reset by peer')'",
        "W: could not start the metrics server: Address already in use"};
    static const char trace[] =
        TRACE IN("train.py", 41, "step") "RuntimeError: CUDA error: device-side assert triggered\n";
    static const char exit_code[] = "worker 3: exited with exit code 1\n";
    static const struct {
        size_t lines;
        const char *end;
        bool is_fault;
    } cases[] = {{0, "", true}, {3, "", true}, {30, "", false}, {30, trace, true}, {30, exit_code, true}};
    need_logs();
    for (size_t i = 0; i < sizeof warnings / sizeof warnings[0]; i++) {
        for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
            gw_text text = {0};
            gw_text_addf(&text, "%s\n", warnings[i]);
            for (size_t line = 0; line < cases[k].lines; line++)
                gw_text_addf(&text, "shard %zu is read\n", line);
            gw_text_addf(&text, "%s", cases[k].end);
            gw_verdict *verdict = judge(gw_text_str(&text));
            if ((verdict->status == GW_VERDICT_FAULT) != cases[k].is_fault)
                fail_msg("%s, %zu lines, %s: %s", warnings[i], cases[k].lines, cases[k].end, verdict->headline);
            gw_verdict_free(verdict);
            gw_text_free(&text);
        }
    }
}

#define STEPS                                                                                                          \
    "step 1 loss 0.91\nstep 2 loss 0.80\nstep 3 loss 0.71\n"                                                           \
    "step 4 loss 0.64\nstep 5 loss 0.58\nstep 6 loss 0.53\n"
#define CUDA_OOM "RuntimeError: CUDA out of memory\n"
#define SMI_TABLE                                                                                                      \
    "+-----------------------------------------+\n| NVIDIA-SMI 535.54    Driver Version: 535.54 |\n"                   \
    "|-----------------------------------------+\n|   0  Tesla T4   Off | 00000000:00:1E.0 Off |   0 |\n"              \
    "| N/A   40C    P0    26W /  70W |   1024MiB / 15360MiB |      0%      Default |\n"                                \
    "|   1  Tesla T4   Off | 00000000:00:1F.0 Off |   0 |\n"                                                           \
    "| N/A   40C    P0    26W /  70W |   2048MiB / 15360MiB |      0%      Default |\n"                                \
    "+-----------------------------------------+\n| Processes:                              |\n"                       \
    "|  No running processes found             |\n+-----------------------------------------+\n\n\n\n"

#define DONE "training finished\n"

/* A log is clean only if both are true:
 * - it shows that the program reached its end;
 * - work or a good end follows every line that looks like a failure. */
static const struct {
    const char *name, *log;
    gw_verdict_status status;
} endings[] = {
    {"work that stops", STEPS, GW_VERDICT_UNDETERMINED},
    {"work up to the end", STEPS DONE, GW_VERDICT_CLEAN},
    {"steps rise within one epoch", "Epoch [3/90] Step [100/500] loss 0.5\nEpoch [3/90] Step [200/500] loss 0.4\n",
     GW_VERDICT_UNDETERMINED},
    {"steps up to the last one", "Epoch [90/90] Step [400/500] loss 0.5\nEpoch [90/90] Step [500/500] loss 0.4\n",
     GW_VERDICT_CLEAN},
    {"epochs that count from 0", "Epoch 0/3 loss 0.5\nEpoch 1/3 loss 0.4\nEpoch 2/3 loss 0.3\n", GW_VERDICT_CLEAN},
    {"a result after each epoch", "epoch 1\nval loss 0.5\nepoch 2\nval loss 0.4\n", GW_VERDICT_UNDETERMINED},
    {"a result after all epochs", "epoch 1\nval loss 0.5\nepoch 2\nval loss 0.4\ntest loss 0.4\n", GW_VERDICT_CLEAN},
    {"time that is left, and a saved file", "iter 80/9000 eta: 9:40:52\niter 100/9000 eta: 9:40:40\nsaved step100.pt\n",
     GW_VERDICT_UNDETERMINED},
    {"a good end", "loading\ntraining\ntraining finished in 3 s\n", GW_VERDICT_CLEAN},
    {"exit status 0", "loading\nProcess finished with exit code 0\n", GW_VERDICT_CLEAN},
    {"silence", "loading\nbuilding\nreading\n", GW_VERDICT_UNDETERMINED},
    {"a good end that is denied", "loading\ntraining\ntraining did not complete successfully\n",
     GW_VERDICT_UNDETERMINED},
    {"an unknown error after work", STEPS "ERROR: the licence server is gone\n", GW_VERDICT_UNDETERMINED},
    {"an unknown error in German after work", STEPS "Fehler: Lizenz abgelaufen\n", GW_VERDICT_UNDETERMINED},
    {"an unknown error, and work after it", "ERROR: the licence server is gone\n" STEPS DONE, GW_VERDICT_CLEAN},
    {"a fatal error and words of the shell", STEPS "FATAL: cannot open the device\n\n\nJob finished at 12:00\n",
     GW_VERDICT_UNDETERMINED},
    {"an exception of an unknown type", STEPS TRACE IN("train.py", 3, "<module>") "queue.Empty\n\n\nsaved the log\n",
     GW_VERDICT_FAULT},
    {"an exception without its traceback", STEPS "ValueError: bad shard\n", GW_VERDICT_FAULT},
    {"an exception without its traceback, and lines after it", STEPS "ValueError: bad shard\n\n\n\nbye\n",
     GW_VERDICT_UNDETERMINED},
    {"metrics that are called errors", STEPS "test error: 0.031\nerrors=0 failed_samples=0\nbest accuracy 0.97\n",
     GW_VERDICT_CLEAN},
    {"out of memory, then nvidia-smi's table", STEPS CUDA_OOM SMI_TABLE, GW_VERDICT_FAULT},
    {"out of memory, then a list of settings",
     STEPS CUDA_OOM "{\n  \"epoch\": 1,\n  \"step\": 2,\n  \"epoch\": 2,\n  \"step\": 9,\n  \"a\": 1,\n  \"b\": 2,\n"
                    "  \"c\": 3,\n  \"d\": 4,\n  \"e\": 5\n}\n",
     GW_VERDICT_FAULT},
    {"out of memory, then the allocator's chunks",
     STEPS CUDA_OOM "InUse at 7f00 of size 1280 by op Add action_count 1 step 0 next 1\n"
                    "InUse at 7f05 of size 1280 by op Add action_count 2 step 3 next 2\n",
     GW_VERDICT_FAULT},
    {"out of memory, then work", STEPS CUDA_OOM "step 7 loss 0.51\nstep 8 loss 0.50\n" DONE, GW_VERDICT_CLEAN},
    {"out of memory in a server that goes on serving",
     CUDA_OOM "INFO: 10.0.0.1:5 - \"POST /v1/completions HTTP/1.1\" 200 OK\n"
              "INFO: 10.0.0.1:5 - \"POST /v1/completions HTTP/1.1\" 200 OK\n"
              "INFO: 10.0.0.1:5 - \"POST /v1/completions HTTP/1.1\" 200 OK\nServer shutdown complete\n",
     GW_VERDICT_CLEAN},
    {"out of memory in a server that only answers probes",
     CUDA_OOM "INFO: 10.0.0.1:5 - \"GET /health HTTP/1.1\" 200 OK\n"
              "INFO: 10.0.0.1:5 - \"GET /health HTTP/1.1\" 200 OK\n"
              "INFO: 10.0.0.1:5 - \"GET /health HTTP/1.1\" 200 OK\n",
     GW_VERDICT_FAULT},
    {"nvidia-smi -q with errors",
     "==============NVSMI LOG==============\nGPU 00000000:00:1E.0\n    ECC Errors\n"
     "        Aggregate\n            DRAM Uncorrectable : 4\n",
     GW_VERDICT_FAULT},
    {"nvidia-smi -q without errors",
     "==============NVSMI LOG==============\nGPU 00000000:00:1E.0\n    ECC Errors\n"
     "        Aggregate\n            DRAM Uncorrectable : 0\n",
     GW_VERDICT_UNDETERMINED},

    {"weights that were loaded, and then silence",
     "loading the model\nLoading checkpoint shards: 50% Completed | 1/2\nLoading checkpoint shards: 100% Completed | "
     "2/2\nsaved AOT compiled function to cache\ncapturing graphs\n",
     GW_VERDICT_UNDETERMINED},
    {"a server that became ready",
     "loading\nINFO: Started server process [1]\nINFO: Uvicorn running on "
     "http://0.0.0.0:8000 (Press CTRL+C to quit)\n",
     GW_VERDICT_UNDETERMINED},
    {"a server that was stopped",
     "loading\nINFO: Started server process [1]\nINFO: Uvicorn running on http://0.0.0.0:8000\n"
     "INFO:     Shutting down\nINFO:     Application shutdown complete.\n",
     GW_VERDICT_CLEAN},
    {"a server that became ready, and an exception after it",
     "loading\nINFO: Uvicorn running on http://0.0.0.0:8000\n" TRACE IN("app.py", 3, "main") "KeyError: 'x'\n",
     GW_VERDICT_FAULT},
    {"an extension that failed to load, and a server that became ready",
     TRACE IN("nodes.py", 3, "load") "ModuleNotFoundError: No module named 'cv2'\nStarting server\n\nTo see the GUI go "
                                     "to: http://0.0.0.0:8188\n",
     GW_VERDICT_UNDETERMINED},
    {"a lost browser, in a callback",
     STEPS "Exception in callback _ProactorBasePipeTransport._call_connection_lost(None)\n" TRACE IN(
         "proactor_events.py", 162, "_call_connection_lost") "ConnectionResetError: [WinError 10054]\n" DONE,
     GW_VERDICT_CLEAN},
    {"an exception behind an ignored one",
     STEPS "Exception ignored in: <function f at 0x7f0000001000>\n" TRACE IN("a.py", 1, "f") "ValueError: x\n" TRACE IN(
         "train.py", 3, "main") "KeyError: 'y'\n",
     GW_VERDICT_FAULT},
    {"an engine that dies while its server stops in order",
     STEPS "[shutdown] API server: shutdown triggered, signal=SIGTERM\n" TRACE IN(
         "a.py", 1, "f") "EngineDeadError: EngineCore encountered an issue\nINFO:     Application shutdown complete.\n",
     GW_VERDICT_CLEAN},
    {"a task that failed and was retried",
     "Task work failed. There are 2 retries remaining, so the task will be retried.\n" IN(
         "train.py", 8, "work") "ConnectionError: first attempt\ntask 0 done\nall tasks finished\n",
     GW_VERDICT_CLEAN},
    {"a task that failed, was retried, and failed again",
     "Task work failed. There are 1 retries remaining, so the task will be retried.\n" TRACE IN(
         "train.py", 8, "work") "ConnectionError: first attempt\n" TRACE IN("train.py", 8,
                                                                            "work") "ConnectionError: second attempt\n",
     GW_VERDICT_FAULT},
    {"a loss that is no number any more", "step 1 loss 0.5\nstep 2 loss nan\nstep 3 loss nan\n", GW_VERDICT_FAULT},
    {"a loss that was no number once", "step 1 loss nan\nstep 2 loss 0.5\nstep 3 loss 0.4\n" DONE, GW_VERDICT_CLEAN},
    {"subjects of commits",
     "[main 573b746] Fix CUDA out of memory in validation\n 1 file changed\nRevert \"Fix segfault\"\n",
     GW_VERDICT_UNDETERMINED},
    {"an unknown message about the GPU", STEPS TRACE IN("a.py", 1, "f") "RuntimeError: CUDA is unhappy today\n",
     GW_VERDICT_UNDETERMINED},
    {"a failed test",
     "F.                     [100%]\n>   assert x\nE   AssertionError: loss differs\n1 failed, 1 passed in 0.02s\n",
     GW_VERDICT_FAULT},
};

GW_TEST(clean_is_earned)
{
    size_t wrong = 0;
    need_logs();
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        gw_verdict *verdict = judge(endings[i].log);
        if (verdict->status != endings[i].status)
            print_message("%s: %s: %s\n", endings[i].name, gw_verdict_status_text(verdict->status), verdict->headline);
        wrong += verdict->status != endings[i].status;
        gw_verdict_free(verdict);
    }
    assert_int_equal(wrong, 0);
}

/* How programs report that they compute on the CPU. */
static const char *const on_cpu[] = {
    "W0000 gpu_device.cc:2251] Cannot dlopen some GPU libraries. Skipping registering GPU devices...\n",
    "I tensorflow/tsl/cuda/cudart_stub.cc:28] Could not find cuda drivers on your machine, GPU will not be used.\n",
    "E external/local_xla/xla/stream_executor/cuda/cuda_driver.cc:152] failed call to cuInit: INTERNAL: CUDA error: "
    "Failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected\n",
    "Num GPUs Available:  0\n",
    "GPUs: []\n",
    "tf.config.list_physical_devices('GPU') -> []\n",
    "WARNING:tensorflow:No GPU found, running on CPU\n",
    "WARNING:tensorflow:There are no GPUs available\n",
    "WARNING:jax._src.xla_bridge:An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not "
    "installed. Falling back to cpu.\n",
    "WARNING:absl:No GPU/TPU found, falling back to CPU. (Set TF_CPP_MIN_LOG_LEVEL=0 and rerun for more info.)\n",
    "I0501 xla_bridge.py:889] Unable to initialize backend 'cuda': FAILED_PRECONDITION: No visible GPU devices.\n",
    "JAX devices: [CpuDevice(id=0)]\n",
    "Using device: cpu\n",
    "device(type='cpu')\n",
    "torch.cuda.is_available(): False\n",
    "CUDA not available, training on CPU.\n",
    "UserWarning: User provided device_type of 'cuda', but CUDA is not available. Disabling\n",
    "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11040).\n",
    "UserWarning: CUDA initialization: Found no NVIDIA driver on your system.\n",
    "UserWarning: 'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be "
    "used.\n",
    "GPU available: False, used: False\nTPU available: False, using: 0 TPU cores\n",
    "GPU available: True (cuda), used: False\nGPU available but not used. You can set it by `accelerator='gpu'`.\n",
    "Device set to use cpu\n",
    "INFO:sentence_transformers.SentenceTransformer:Use pytorch device_name: cpu\n",
    "[W:onnxruntime:Default, onnxruntime_pybind_state.cc:870] Failed to create CUDAExecutionProvider.\n",
    "UserWarning: Specified provider 'CUDAExecutionProvider' is not in available provider names.\n",
    "EP Error when using ['CUDAExecutionProvider']\nFalling back to ['CPUExecutionProvider'] and retrying.\n",
    "Applied providers: ['CPUExecutionProvider'], with options: {'CPUExecutionProvider': {}}\n",
    "WARNING: /workspace/src/context.cc:44: No visible GPU is found, setting device to CPU.\n",
    "WARNING: /workspace/src/gbm/gbtree.cc:78: Device is changed from GPU to CPU as we couldn't find any available "
    "GPU\n",
    "[LightGBM] [Warning] GPU device not found, using CPU instead.\n",
    "Using CPU\nTo switch to GPU 0, use the option: --gpu-id 0\n",
    "Ultralytics 8.2.0 Python-3.10.12 torch-2.3.0+cpu CPU (Intel Core(TM) i7-9700K 3.60GHz)\n",
    "UserWarning: FP16 is not supported on CPU; using FP32 instead\n",
    "Neither CUDA nor MPS are available - defaulting to CPU. Note: This module is much faster with a GPU.\n",
    "warning: no usable GPU found, --gpu-layers option will be ignored\n",
    "msg=\"inference compute\" id=0 library=cpu variant=avx2\n",
};

static bool says_cpu(const char *begin, const char *end)
{
    char log[1000];
    snprintf(log, sizeof log, "%.500s" STEPS "%.300s", begin, end);
    gw_verdict *verdict = judge(log);
    bool says = strstr(verdict->headline, "computed on the CPU") != NULL;
    if (says && verdict->status != GW_VERDICT_CLEAN)
        fail_msg("%s: not clean", log);
    gw_verdict_free(verdict);
    return says;
}

/* A training that ended well has no fault, but its user should know that the card was not used. */
GW_TEST(card_that_was_not_used)
{
    need_logs();
    for (size_t i = 0; i < sizeof on_cpu / sizeof on_cpu[0]; i++) {
        if (!says_cpu(on_cpu[i], DONE))
            fail_msg("%s: no word of the CPU", on_cpu[i]);
        if (says_cpu(on_cpu[i], "GPU 0: NVIDIA A100-SXM4-40GB\n" DONE))
            fail_msg("%s: a card was used", on_cpu[i]);
    }
    assert_false(says_cpu("Using device: cuda:0\nCPU: 16 cores, using 8 CPU threads\n", DONE));
    assert_false(says_cpu("GPU available: True (cuda), used: True\nusing cpu offload\n", DONE));
    assert_false(says_cpu("GPUs: [PhysicalDevice(name='/physical_device:GPU:0', device_type='GPU')]\n", DONE));
}

static bool has_advice(const char *log, const char *advice)
{
    enum { BYTES_COMPARED = 40 };
    char begin[BYTES_COMPARED + 1];
    size_t bytes = strcspn(advice, "\n");
    gw_verdict *verdict = judge(log);
    bytes = bytes < BYTES_COMPARED ? bytes : BYTES_COMPARED;
    memcpy(begin, advice, bytes);
    begin[bytes] = '\0';
    bool found = list_has(&verdict->next, begin);
    gw_verdict_free(verdict);
    return found;
}

/* Return a log that leads to this cause. `cause` is the id of a cause, or the beginning of an id. */
static const char *log_of_cause(const char *cause)
{
    static const struct {
        const char *cause, *log;
    } logs[] = {{"gpu-oom-library-handle", "RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR"},
                {"gpu-oom-peak-phase", NULL}, /* no message alone shows it */
                {"gpu-oom", "RuntimeError: CUDA out of memory."},
                {"numeric-divergence", "Loss is nan, stopping training"},
                {"arch-not-in-binary", "CUDA error: no kernel image is available for execution on the device"},
                {"ptx-too-new", "CUDA error: the provided PTX was compiled with an unsupported toolchain."},
                {"illegal-address", "RuntimeError: CUDA error: an illegal memory access was encountered"},
                {"device-assert", "RuntimeError: CUDA error: device-side assert triggered"},
                {"host-crash", "Segmentation fault (core dumped)"},
                {"wrong-current-device", "RuntimeError: peer access is not supported between these two devices"},
                {"peer-died", "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE"},
                {"fork-after-init", "RuntimeError: Cannot re-initialize CUDA in forked subprocess."},
                {"library-too-old", "RuntimeError: this attention only supports Ampere GPUs or newer"},
                {"library-version", "ImportError: a.so: undefined symbol: cudnnFoo"},
                {"library-", "ImportError: libcutensor.so.2: cannot open shared object file"},
                {"no-device-visible", "MisconfigurationException: GPUs requested but none are available."},
                {"stub-or-wrong", "CUDA driver is a stub library"},
                {"host-oom-kill", "Memory cgroup out of memory: Killed process 12 (python)"},
                {"killed-by-scheduler-or-user", "slurmstepd: error: JOB 1 CANCELLED AT 10:00 DUE TO TIME LIMIT"},
                {"script-exception", "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n"
                                     "KeyError: 'x'"},
                {"", "RuntimeError: CUDA error: invalid argument"}};
    for (size_t i = 0; i < sizeof logs / sizeof logs[0]; i++) {
        if (gw_begins(cause, logs[i].cause))
            return logs[i].log;
    }
    fail_msg("no log for %s", cause);
    return "";
}

/* Advice for a program, a platform or a kind of card does not appear if the log does not name it. tests/logs/useful.txt
 * shows where it appears. */
GW_TEST(advice_fits_the_program)
{
    static const struct {
        const char *words, *cause;
        bool replaces;
        const char *advice;
    } advice[] = {
#define GWI_ADVICE(words, cause, replaces, text) {words, cause, replaces, text},
#include "log_advice.def"
#undef GWI_ADVICE
    };
    need_logs();
    for (size_t i = 0; i < sizeof advice / sizeof advice[0]; i++) {
        char log[600];
        const char *line = log_of_cause(advice[i].cause);
        if (line == NULL)
            continue;
        snprintf(log, sizeof log, "%.300s\n", line);
        if (has_advice(log, advice[i].advice))
            fail_msg("%s: advice for another program: %s", log, advice[i].advice);
    }
}

/* The groups of a row: one text of each, none of a group with !, and the card. */
#define RAISED_IN(file) "Traceback (most recent call last):\n  File \"" file "\", line 3, in f\n    g()\n"
#define NO_KERNEL       "CUDA error: no kernel image is available for execution on the device\n"
GW_TEST(advice_needs_all_its_words)
{
    static const struct {
        const char *log, *advice;
        bool is_given;
    } cases[] = {
        {"RuntimeError: CUDA out of memory. (vllm)\n", "vLLM: use a smaller max_model_len", true},
        {"RuntimeError: CUDA out of memory. (ggml)\n", "llama.cpp: put fewer layers", true},
        {"RuntimeError: CUDA out of memory. (ggml, kv cache)\n", "llama.cpp: use a smaller context", true},
        {"Device: cuda:0 NVIDIA GeForce RTX 5090 : native\npytorch version: 2.6.0+cu124\n" NO_KERNEL,
         "This card needs a wheel for CUDA 12.8 or newer", true},
        {"Device: cuda:0 NVIDIA GeForce RTX 3090 : native\npytorch version: 2.6.0+cu124\n" NO_KERNEL,
         "This card needs a wheel for CUDA 12.8 or newer", false},
        {"Device: cuda:0 NVIDIA GeForce GTX 1080 Ti : native\npytorch version: 2.9.0+cu130\n" NO_KERNEL,
         "This card is older than Turing", true},
        {"Device: cuda:0 NVIDIA GeForce GTX 1080 Ti : native\npytorch version: 2.9.0+cu130\nflash_attn: " NO_KERNEL,
         "This card is older than Turing", false},
        {"nvcc fatal   : Unsupported gpu architecture 'compute_89'\n", "Build with a newer CUDA toolkit, at least 11.8",
         true},
        {"nvcc fatal   : Unsupported gpu architecture 'compute_35'\n", "nvcc of a toolkit after CUDA 11.8 no longer",
         true},
        {"Exception: Capture cuda graph failed: CUDA out of memory.\nPossible solutions:\n1. disable cuda graph\n"
         "2. set --mem-fraction-static to a smaller value\n",
         "The log lists solutions; this one suits it: set --mem-fraction-static to a smaller value", true},
        {"RuntimeError: CUDA out of memory.\n1. use the model\n", "The log lists solutions", false},
        {RAISED_IN("/env/lib/python3.11/site-packages/foo/ops.py") "RuntimeError: Foo is required to load it.\n",
         "The message says what is needed: Foo is required to load it", true},
        {RAISED_IN("/env/lib/python3.11/site-packages/foo/ops.py") "RuntimeError: no such layer\n",
         "The message says what is needed", false},
        {RAISED_IN("/srv/train.py") "RuntimeError: Foo is required to load it.\n", "The message says what is needed",
         false},
        {"RuntimeError: foo is required to load it.\n", "The message says what is needed: foo is required", true},
        {"NCCL version 2.18.1+cuda12.1\nhost:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 2 - Init COMPLETE\n",
         "If it hangs here, the ranks wait in their first collective", true},
        {"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 394.00 MiB (GPU 0; 15.78 GiB total "
         "capacity; "
         "5.17 GiB already allocated; 8.68 GiB free; 5.25 GiB reserved in total by PyTorch)\n",
         "Watch nvidia-smi while it runs: far more was free", true},
        {"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 394.00 MiB (GPU 0; 15.78 GiB total "
         "capacity; "
         "15.17 GiB already allocated; 8.68 MiB free; 15.25 GiB reserved in total by PyTorch)\n",
         "Watch nvidia-smi while it runs: far more was free", false},
        {"RuntimeError: The detected CUDA version (12.1) mismatches the version that was used to compile PyTorch\n",
         "nvcc is of CUDA 12.1,", true},
        {"/a/b.h:12:10: fatal error: curand_kernel.h: No such file or directory\n", "CUDA's header curand_kernel.h is",
         true},
        {RAISED_IN("/env/lib/python3.11/site-packages/foo/ops.py") "ModuleNotFoundError: No module named 'bar.ext'\n",
         "The installed release of bar lacks this part, so it does not fit foo", true},
        {RAISED_IN("/env/lib/python3.11/site-packages/foo/ops.py") "ModuleNotFoundError: No module named 'bar'\n",
         "The installed release of", false},
        {"Fatal Python error: Aborted\nThread 0x1 (most recent call first):\n"
         "  File \"/env/lib/site-packages/inner/a.py\", line 1 in f\n"
         "  File \"/env/lib/site-packages/outer/b.py\", line 2 in g\nAborted (core dumped)\n",
         "The crash is in the compiled code of inner", true},
        /* the output of a later command does not show that the program went on, nor does a start at a prompt show an
         * end */
        {"$ docker compose up\nError response from daemon: unknown or invalid runtime name: nvidia\n$ cat d.json\n"
         "{\n 1\n 2\n 3\n 4\n 5\n 6\n 7\n 8\n 9\n}\n",
         "Install the NVIDIA Container Toolkit", true},
        {"$ pip install x\n  FileNotFoundError: [Errno 2] No such file or directory: '/usr/local/cuda/bin/nvcc'\n"
         "error: metadata-generation-failed\n$ python gpu.py\nGPU is available.\n11.7\n",
         "The build needs nvcc", true},
        {"$ ./allreduce\nbox:1:2 [0] NCCL INFO comm 0x5581c0 rank 0 nranks 2 - Init COMPLETE\n^C\n$ nvidia-smi -L\n",
         "If it hangs here, the ranks wait", true},
        {"$ ./allreduce\nbox:1:2 [0] NCCL INFO comm 0x5581c0 rank 0 nranks 2 - Init COMPLETE\nok\n$ nvidia-smi -L\n",
         "If it hangs here, the ranks wait", false},
    };
    need_logs();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (has_advice(cases[i].log, cases[i].advice) != cases[i].is_given)
            fail_msg("%s: advice %s: %s", cases[i].log, cases[i].is_given ? "missing" : "wrong", cases[i].advice);
    }
}

GW_TEST(advice_fits_the_driver)
{
    static const char old[] = "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).\n";
    static const char unknown[] = "CUDA driver version is insufficient for CUDA runtime version\n";
    static const char smi[] = "| NVIDIA-SMI 470.82.01    Driver Version: 470.82.01 |\n"
                              "CUDA driver version is insufficient for CUDA runtime version\n";
    need_logs();
    assert_true(has_advice(old, "The driver in the log supports CUDA 11.4:"));
    assert_true(has_advice(smi, "The driver in the log supports CUDA 11.4:"));
    assert_false(has_advice(unknown, "The driver in the log supports"));
}

GW_TEST_MAIN(NULL, NULL)
