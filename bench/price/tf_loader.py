# SPDX-License-Identifier: Apache-2.0
"""tf.data; with helpers tf.data service, uncompressed, workers on the helpers only and so are the functions' threads."""
import os
import sys

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
DISPATCHER = "import tensorflow as tf; d = tf.data.experimental.service.DispatchServer(); print('at', d.target, flush=True); d.join()"
WORKER = (
    "import sys, tensorflow as tf; s = tf.data.experimental.service; "
    "w = s.WorkerServer(s.WorkerConfig(dispatcher_address=sys.argv[1])); print('up', flush=True); w.join()"
)


def batches(kind, machines):
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    import work_tf  # makes tensors, after which this cannot be set

    if not machines.helpers:
        return iter(work_tf.dataset(kind, machines.threads(helper=False)))
    service = tf.data.experimental.service
    target = machines.start(0, [sys.executable, "-c", DISPATCHER], "at ").removeprefix("at ")
    for helper in range(machines.helpers):
        machines.start(helper, [sys.executable, "-c", WORKER, target.split("://")[1]], "up")
    made = work_tf.dataset(kind, machines.threads(helper=True))
    sent = service.distribute(
        processing_mode="parallel_epochs", service=target, compression=None, max_outstanding_requests=4, target_workers="any"
    )
    return iter(made.apply(sent))
