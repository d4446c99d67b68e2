"""Code shared by the Python programs that truth.py writes: the driver with ctypes. See truth_run.h."""
import ctypes
import os
import signal
import sys
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_ulonglong, c_void_p

cu = ctypes.CDLL("libcuda.so.1")
fail_style = "raise"
device, context, the_event = c_int(), c_void_p(), c_void_p()
streams, kernels, scratch, own_pool = {0: c_void_p()}, [], c_ulonglong(), c_void_p()
scratch_host = ctypes.create_string_buffer(4096)
cached = {}
failed = False

KERNELS = ("convert", "gemm", "softmax", "relu", "norm", "gradient", "adam", "loss")
SLOW = ".visible .global .align 8 .u64 gpuwhy_model_norm[7] = {0x4D4B594857555047, 1, 0, 0, 0, 0, 20};\n"
PTX = ".version 7.0\n.target sm_70\n.address_size 64\n" + "".join(
    f".visible .entry {name}(.param .u64 p)\n{{\nret;\n}}\n" for name in KERNELS)


class OutOfMemory(RuntimeError):
    pass


def check(result, what="a driver call", count=0):
    if result == 0:
        return
    if fail_style == "quiet":
        sys.exit(1)
    if result == 2:
        raise OutOfMemory(f"{what}: out of memory, tried to allocate {count} bytes")
    raise RuntimeError(f"{what} answered {result}")


class Location(ctypes.Structure):
    _fields_ = [("type", c_int), ("id", c_int)]


class Properties(ctypes.Structure):
    _fields_ = [("type", c_int), ("handles", c_int), ("location", Location), ("more", c_ulonglong * 2)]


class Access(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", c_int)]


class PoolProperties(ctypes.Structure):
    _fields_ = [("type", c_int), ("handles", c_int), ("location", Location), ("more", ctypes.c_ubyte * 72)]


class Item:
    __slots__ = ("kind", "address", "bytes", "handle")

    def __init__(self, kind, count):
        self.kind, self.bytes, self.address, self.handle = kind, count, c_ulonglong(), c_void_p()

    def take(self):
        """Returns the driver's result."""
        kind, count = self.kind, self.bytes
        if kind == "plain":
            return cu.cuMemAlloc_v2(byref(self.address), c_size_t(count))
        if kind == "pitch":
            pitch = c_size_t()
            return cu.cuMemAllocPitch_v2(byref(self.address), byref(pitch), c_size_t(4096),
                                         c_size_t((count + 4095) // 4096), c_uint(4))
        if kind == "async":
            return cu.cuMemAllocAsync(byref(self.address), c_size_t(count), streams[1])
        if kind == "pool":
            return cu.cuMemAllocFromPoolAsync(byref(self.address), c_size_t(count), own_pool, streams[1])
        if kind in ("vmm", "vmmh", "vmmr"):
            return self.take_mapped()
        if kind == "cached":
            idle = cached.get(count)
            if idle:
                self.address = idle.pop()
                return 0
            result = cu.cuMemAlloc_v2(byref(self.address), c_size_t(count))
            if result == 2 and flush():
                result = cu.cuMemAlloc_v2(byref(self.address), c_size_t(count))
            return result
        if kind == "managed":
            return cu.cuMemAllocManaged(byref(self.address), c_size_t(count), c_uint(1))
        if kind == "host":
            return cu.cuMemHostAlloc(byref(self.handle), c_size_t(count), c_uint(0))
        if kind == "stream":
            return cu.cuStreamCreate(byref(self.handle), c_uint(1))
        if kind == "event":
            return cu.cuEventCreate(byref(self.handle), c_uint(2))
        if kind == "context":
            result = cu.cuCtxCreate_v2(byref(self.handle), c_uint(0), device)
            if result == 0:
                check(cu.cuCtxSetCurrent(context))
            return result
        if kind == "graph":
            return self.take_captured()
        if kind == "keptpool":
            return self.take_kept_pool()
        raise ValueError(kind)

    def take_captured(self):
        stream, graph = streams[1], c_void_p()
        check(cu.cuStreamBeginCapture_v2(stream, c_int(2)))
        result = cu.cuMemAllocAsync(byref(self.address), c_size_t(self.bytes), stream)
        if result == 0:
            argument = (c_void_p * 1)(ctypes.addressof(self.address))
            check(cu.cuLaunchKernel(kernels[1], c_uint(64), c_uint(1), c_uint(1), c_uint(128), c_uint(1), c_uint(1),
                                    c_uint(0), stream, argument, None))
        check(cu.cuStreamEndCapture(stream, byref(graph)))
        self.address = c_ulonglong()
        if result == 0:
            check(cu.cuGraphInstantiateWithFlags(byref(self.handle), graph, c_ulonglong(0)))
            check(cu.cuGraphLaunch(self.handle, stream))
        return result

    def take_kept_pool(self):
        everything, block = c_ulonglong(2**64 - 1), c_ulonglong()
        check(cu.cuMemPoolCreate(byref(self.handle), byref(PoolProperties(1, 0, Location(1, 0)))))
        check(cu.cuMemPoolSetAttribute(self.handle, c_int(4), byref(everything)))
        result = cu.cuMemAllocFromPoolAsync(byref(block), c_size_t(self.bytes), self.handle, streams[1])
        if result == 0:
            check(cu.cuMemFreeAsync(block, streams[1]))
        return result

    def take_mapped(self):
        properties = Properties(1, 0, Location(1, 0))
        self.handle = c_ulonglong()
        result = cu.cuMemCreate(byref(self.handle), c_size_t(self.bytes), byref(properties), c_ulonglong(0))
        if result != 0 or self.kind == "vmmh":
            return result
        access = Access(Location(1, 0), 3)
        size = c_size_t(self.bytes)
        check(cu.cuMemAddressReserve(byref(self.address), size, c_size_t(0), c_ulonglong(0), c_ulonglong(0)))
        check(cu.cuMemMap(self.address, size, c_size_t(0), self.handle, c_ulonglong(0)))
        check(cu.cuMemSetAccess(self.address, size, byref(access), c_size_t(1)))
        if self.kind == "vmmr":
            check(cu.cuMemRelease(self.handle))
        return 0

    def give(self):
        kind, size = self.kind, c_size_t(self.bytes)
        if kind in ("plain", "pitch", "managed"):
            check(cu.cuMemFree_v2(self.address))
        elif kind in ("async", "pool"):
            check(cu.cuMemFreeAsync(self.address, streams[1]))
        elif kind == "cached":
            cached.setdefault(self.bytes, []).append(self.address)
        elif kind == "host":
            check(cu.cuMemFreeHost(self.handle))
        elif kind == "stream":
            check(cu.cuStreamDestroy_v2(self.handle))
        elif kind == "event":
            check(cu.cuEventDestroy_v2(self.handle))
        elif kind == "graph":
            check(cu.cuGraphExecDestroy(self.handle))
        elif kind == "keptpool":
            check(cu.cuMemPoolDestroy(self.handle))
        elif kind == "context":
            check(cu.cuCtxDestroy_v2(self.handle))
            check(cu.cuCtxSetCurrent(context))
        else:
            if kind != "vmmh":
                check(cu.cuMemUnmap(self.address, size))
            if kind != "vmmr":
                check(cu.cuMemRelease(self.handle))
            if kind != "vmmh":
                check(cu.cuMemAddressFree(self.address, size))


def new(bag, kind, count):
    item = Item(kind, count)
    check(item.take(), kind, count)
    bag.append(item)


def attempt(bag, kind, count):
    global failed
    item = Item(kind, count)
    if item.take() != 0:
        failed = True
    else:
        bag.append(item)


def flush():
    found = False
    for idle in cached.values():
        for address in idle:
            found = True
            check(cu.cuMemFree_v2(address))
    cached.clear()
    return found


def give_all(bag):
    while bag:
        bag.pop().give()


def give_last(bag):
    if bag:
        bag.pop().give()


def give_half(bag):
    for item in bag[::2]:
        item.give()
    bag[:] = bag[1::2]


def give_beyond(bag, count):
    while len(bag) > count:
        bag.pop(0).give()


def launch(kernel, stream, count):
    argument = (c_void_p * 1)(ctypes.addressof(scratch))
    for index in range(count):
        check(cu.cuLaunchKernel(kernels[(kernel + index) % 8], c_uint(64), c_uint(1), c_uint(1), c_uint(128), c_uint(1),
                                c_uint(1), c_uint(0), streams[stream], argument, None))


def wait_for(how, stream):
    if how == "ctx":
        check(cu.cuCtxSynchronize())
    elif how == "stream":
        check(cu.cuStreamSynchronize(streams[stream]))
    elif how == "event":
        check(cu.cuEventRecord(the_event, streams[stream]))
        check(cu.cuEventSynchronize(the_event))
    elif how == "dtoh":
        check(cu.cuMemcpyDtoH_v2(scratch_host, scratch, c_size_t(4)))
    elif how == "htod":
        check(cu.cuMemcpyHtoD_v2(scratch, scratch_host, c_size_t(4096)))
    elif how == "dtoha":
        check(cu.cuMemcpyDtoHAsync_v2(scratch_host, scratch, c_size_t(4), streams[stream]))
        check(cu.cuStreamSynchronize(streams[stream]))
    elif how == "poll":
        while (result := cu.cuStreamQuery(streams[stream])) == 600:
            pass
        check(result)


def memset(bag):
    for item in reversed(bag):
        if item.address.value:
            check(cu.cuMemsetD8Async(item.address, ctypes.c_ubyte(0), c_size_t(256), None))
            return


def probe(what):
    """A question whose answer is an error, as libraries ask at their start."""
    module, function, address, number = c_void_p(), c_void_p(), c_ulonglong(), c_int()
    if what == "name":
        check(cu.cuModuleLoadData(byref(module), c_char_p(PTX.encode())))
        cu.cuModuleGetFunction(byref(function), module, b"gemm_of_a_newer_card")
        check(cu.cuModuleUnload(module))
    elif what == "device":
        cu.cuDeviceGet(byref(number), c_int(99))
    else:
        cu.cuMemAlloc_v2(byref(address), c_size_t(0))


def keep_pools():
    pool, everything = c_void_p(), c_ulonglong(2**64 - 1)
    check(cu.cuDeviceGetDefaultMemPool(byref(pool), device))
    check(cu.cuMemPoolSetAttribute(pool, c_int(4), byref(everything)))
    check(cu.cuMemPoolSetAttribute(own_pool, c_int(4), byref(everything)))


def trim_pools():
    pool = c_void_p()
    check(cu.cuDeviceGetDefaultMemPool(byref(pool), device))
    check(cu.cuCtxSynchronize())
    check(cu.cuMemPoolTrimTo(pool, c_size_t(0)))
    check(cu.cuMemPoolTrimTo(own_pool, c_size_t(0)))


def chosen(turn, one_in):
    return (turn * 2654435761 % 4294967296 >> 16) % one_in == 0


def make_current():
    check(cu.cuCtxSetCurrent(context))


def kill(number):
    os.kill(os.getpid(), signal.Signals(number))


def leave(status):
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status) if fail_style == "quiet" else sys.exit(status)


def begin(stream_count, uses_scratch, uses_pool, slow):
    module = c_void_p()
    check(cu.cuInit(c_uint(0)))
    check(cu.cuDeviceGet(byref(device), c_int(0)))
    check(cu.cuDevicePrimaryCtxRetain(byref(context), device))
    check(cu.cuCtxSetCurrent(context))
    check(cu.cuModuleLoadData(byref(module), c_char_p((PTX + (SLOW if slow else "")).encode())))
    for name in KERNELS:
        kernel = c_void_p()
        check(cu.cuModuleGetFunction(byref(kernel), module, c_char_p(name.encode())))
        kernels.append(kernel)
    for index in range(1, stream_count + 1):
        streams[index] = c_void_p()
        check(cu.cuStreamCreate(byref(streams[index]), c_uint(1)))
    check(cu.cuEventCreate(byref(the_event), c_uint(2)))
    if uses_scratch:
        check(cu.cuMemAlloc_v2(byref(scratch), c_size_t(1 << 16)))
    if uses_pool:
        check(cu.cuMemPoolCreate(byref(own_pool), byref(PoolProperties(1, 0, Location(1, 0)))))


def end_clean(bags):
    for bag in bags:
        give_all(bag)
    flush()
    if own_pool:
        check(cu.cuMemPoolDestroy(own_pool))
    if scratch.value:
        check(cu.cuMemFree_v2(scratch))
    check(cu.cuEventDestroy_v2(the_event))
    for index in range(1, len(streams)):
        check(cu.cuStreamDestroy_v2(streams[index]))
    check(cu.cuCtxSetCurrent(None))
    check(cu.cuDevicePrimaryCtxRelease_v2(device))
