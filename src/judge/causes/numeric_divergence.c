/* Training produced NaN or infinity, but the GPU works correctly.
 *
 * Never established: only printed messages show this. Messages on stderr make the cause supported at most. */
#include "gwi_cause.h"

const gw_cause gwi_cause_numeric_divergence = {
    .id = "numeric-divergence",
    .summary = "Training produced NaN or infinity; the GPU works correctly.",
    .proof = "a message of the program about NaN or infinity, and no failing driver call",
    .fixes = {[GW_FRAMEWORK_RAW] = "Lower the learning rate, or warm it up\n"
                                   "Clip gradients\n"
                                   "Skip a bad batch, and check its inputs",
              [GW_FRAMEWORK_TORCH] = "Use bfloat16 instead of float16 if the card supports it\n"
                                     "Use torch.nn.utils.clip_grad_norm_, a lower learning rate, a warm-up\n"
                                     "torch.autograd.set_detect_anomaly(True) names the operation in a short run",
              [GW_FRAMEWORK_TENSORFLOW] = "Use mixed_bfloat16 instead of mixed_float16 if the card supports it\n"
                                          "Clip gradients (clipnorm of the optimizer), lower the learning rate\n"
                                          "tf.debugging.enable_check_numerics() names the operation in a short run",
              [GW_FRAMEWORK_JAX] = "Clip gradients (optax.clip_by_global_norm), lower the learning rate\n"
                                   "jax.config.update(\"jax_debug_nans\", True) names the operation in a short run"},
};
