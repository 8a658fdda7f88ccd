"""Reads our passes with the classes that the Tinker SDK generates, and writes results with them for us to read."""

import json
import sys

from tinker.proto import tinker_public_pb2 as pb
import numpy as np



def size_of_known(message):
    copy = type(message)()
    copy.CopyFrom(message)
    copy.DiscardUnknownFields()
    return copy.ByteSize()


request = pb.ForwardBackwardRequest()
request.ParseFromString(bytes.fromhex(sys.stdin.readline().strip()))
DTYPES = {pb.DTYPE_FLOAT32: np.float32, pb.DTYPE_INT64: np.int64}
seen = {
    "model_id": request.model_id,
    "seq_id": request.seq_id,
    "loss_fn": request.loss_fn,
    "forward_only": request.forward_only,
    "num_unknown_bytes": request.ByteSize() - size_of_known(request),
    "data": [
        {
            "tokens": np.frombuffer(datum.model_input[0].encoded_text.tokens, dtype=np.int32).tolist(),
            "inputs": {
                name: {
                    "dtype": tensor.dtype,
                    "shape": list(tensor.shape),
                    "data": np.frombuffer(tensor.dense, dtype=DTYPES[tensor.dtype]).tolist(),
                }
                for name, tensor in datum.loss_fn_inputs.items()
            },
        }
        for datum in request.data
    ],
}

output = pb.ForwardBackwardOutput(loss_fn_output_type="ArrayRecord")
output.metrics["loss:sum"] = 1.25
output.metrics["empty"] = 0.0
for arrays in ([[-1.0, -2.0], []], [[-3.5]]):
    record = output.loss_fn_outputs.add()
    record.num_datums = len(arrays)
    values = [np.asarray(array, dtype=np.float32) for array in arrays]
    offsets = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum([value.nbytes for value in values], out=offsets[1:])
    for name in ("elementwise_loss", "logprobs"):
        record.fields[name].CopyFrom(
            pb.BatchedTensor(
                data=b"".join(value.tobytes() for value in values),
                offsets=offsets.tobytes(),
                dtype=pb.DTYPE_FLOAT32,
                trailing_shape=(),
            )
        )
print("REPORT " + json.dumps({"seen": seen, "output": output.SerializeToString().hex()}))
