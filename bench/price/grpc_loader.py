# SPDX-License-Identifier: Apache-2.0
"""The loader by hand of the published PyTorch example: torch's DataLoader behind a Python gRPC server on the first helper, batches by
pickle, one call ahead. It knows one server only, as the example does."""
import pickle
import sys
from pathlib import Path

OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def same(message):
    return message


def batches(kind, machines):
    import grpc
    import torch  # noqa: F401  what is unpickled

    if not machines.helpers:
        raise SystemExit("without a helper it is torch's DataLoader")
    said = machines.start(0, [sys.executable, Path(__file__), kind.name, str(machines.threads(helper=True))], "at ")
    get = grpc.insecure_channel(said.removeprefix("at "), options=OPTIONS).unary_unary("/Loader/Next", same, same)

    def received():
        ahead = get.future(b"")
        while True:
            ahead, this = get.future(b""), ahead
            yield pickle.loads(this.result())

    return received()


def serve(name: str, workers: int):
    from concurrent import futures

    import grpc
    import kinds
    import tvcpu  # noqa: F401  before torchvision
    import torch
    import work_torch

    torch.set_num_threads(1)
    kind = kinds.KINDS[name]
    loader = iter(torch.utils.data.DataLoader(work_torch.Pictures(kind), batch_size=kind.batch, num_workers=workers))

    class Handler(grpc.GenericRpcHandler):
        def service(self, details):
            return grpc.unary_unary_rpc_method_handler(lambda request, context: pickle.dumps(next(loader), protocol=5), same, same)

    server = grpc.server(futures.ThreadPoolExecutor(1), handlers=(Handler(),), options=OPTIONS)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"at 127.0.0.1:{port}", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
