/* Export a network as an ONNX file (https://onnx.ai), with the arithmetic of an evaluation: batch normalisation uses
 * the running statistics.
 *
 * - Opset 17. The input "images" is fp32, N x channels x rows x columns, and the output "logits" is fp32, N x classes.
 *   N is any number.
 * - The parameters have the names, shapes and values of weights.h.
 * - A layer becomes a node with its title; a ReLU is a node of its own. */
#ifndef TRAINER_ONNX_H
#define TRAINER_ONNX_H

#include "file.h"
#include "model.h"

/* Write the file. An existing file is replaced only when the new one is complete. Fails if the file would have more
 * than 2^31 - 1 bytes, the limit of the format, or if the model has a layer that cannot be exported; `reason` names it.
 */
bool onnx_write(const char *path, const struct model *model, const float *parameters, const float *statistics,
                struct reason *reason);
/* True if all layers of the model can be exported, and their titles differ. Otherwise onnx_write() fails. */
bool onnx_check(const struct model *model, struct reason *reason);

#endif
