"""What py-spy 0.4.3 printed about two processes, rank 0 in a collective and rank 1 in a sleep, with other paths.

Each text is one dump: PLAIN, NATIVE (--native), LOCALS (--locals) and JSON (--json --native, without its white space).
"""

PLAIN = [
"""Process 5559: /usr/bin/python3 -u train.py 0
Python v3.11.7 (/usr/bin/python3.11)

Thread 5559 (idle): "MainThread"
    wait (torch/distributed/distributed_c10d.py:2)
    all_reduce (torch/distributed/distributed_c10d.py:5)
    step (train.py:8)
    main (train.py:15)
    <module> (train.py:16)
Thread 5797 (idle): "pin_memory"
    Condition.wait (threading.py:327)
    Queue.get (queue.py:171)
    pin (train.py:10)
    Thread.run (threading.py:982)
    Thread._bootstrap_inner (threading.py:1045)
    Thread._bootstrap (threading.py:1002)
""",
"""Process 5560: /usr/bin/python3 -u train.py 1
Python v3.11.7 (/usr/bin/python3.11)

Thread 5560 (idle): "MainThread"
    read (train.py:4)
    load (train.py:6)
    main (train.py:14)
    <module> (train.py:16)
Thread 5801 (idle): "pin_memory"
    Condition.wait (threading.py:327)
    Queue.get (queue.py:171)
    pin (train.py:10)
    Thread.run (threading.py:982)
    Thread._bootstrap_inner (threading.py:1045)
    Thread._bootstrap (threading.py:1002)
""",
]

NATIVE = [
"""Process 5559: /usr/bin/python3 -u train.py 0
Python v3.11.7 (/usr/bin/python3.11)

Thread 5559 (idle): "MainThread"
    0x7fd17c2a3f16 (libc.so.6)
    0x7fd17c2aed90 (libc.so.6)
    PyThread_acquire_lock_timed (libpython3.11.so.1.0)
    lock_PyThread_acquire_lock (libpython3.11.so.1.0)
    wait (torch/distributed/distributed_c10d.py:2)
    all_reduce (torch/distributed/distributed_c10d.py:5)
    step (train.py:8)
    main (train.py:15)
    <module> (train.py:16)
    0x7fd17c24524a (libc.so.6)
Thread 5797 (idle): "pin_memory"
    0x7fd17c2a3f16 (libc.so.6)
    0x7fd17c2aed90 (libc.so.6)
    PyThread_acquire_lock_timed (libpython3.11.so.1.0)
    lock_PyThread_acquire_lock (libpython3.11.so.1.0)
    Condition.wait (threading.py:327)
    Queue.get (queue.py:171)
    pin (train.py:10)
    Thread.run (threading.py:982)
    Thread._bootstrap_inner (threading.py:1045)
    Thread._bootstrap (threading.py:1002)
    thread_run (libpython3.11.so.1.0)
    0x7fd17c2a71f5 (libc.so.6)
    0x7fd17c3278ec (libc.so.6)
""",
"""Process 5560: /usr/bin/python3 -u train.py 1
Python v3.11.7 (/usr/bin/python3.11)

Thread 5560 (idle): "MainThread"
    clock_nanosleep (libc.so.6)
    time_sleep (libpython3.11.so.1.0)
    read (train.py:4)
    load (train.py:6)
    main (train.py:14)
    <module> (train.py:16)
    0x7fae0ae4524a (libc.so.6)
Thread 5801 (idle): "pin_memory"
    0x7fae0aea3f16 (libc.so.6)
    0x7fae0aeaed90 (libc.so.6)
    PyThread_acquire_lock_timed (libpython3.11.so.1.0)
    lock_PyThread_acquire_lock (libpython3.11.so.1.0)
    Condition.wait (threading.py:327)
    Queue.get (queue.py:171)
    pin (train.py:10)
    Thread.run (threading.py:982)
    Thread._bootstrap_inner (threading.py:1045)
    Thread._bootstrap (threading.py:1002)
    thread_run (libpython3.11.so.1.0)
    0x7fae0aea71f5 (libc.so.6)
    0x7fae0af278ec (libc.so.6)
""",
]

LOCALS = [
"""Process 5559: /usr/bin/python3 -u train.py 0
Python v3.11.7 (/usr/bin/python3.11)

Thread 5559 (idle): "MainThread"
    wait (torch/distributed/distributed_c10d.py:2)
        Arguments:
            work: <_thread.lock at 0x7fd17bcc9c80>
    all_reduce (torch/distributed/distributed_c10d.py:5)
        Arguments:
            tensor: [0]
            op: None
            group: None
        Locals:
            work: <_thread.lock at 0x7fd17bcc9c80>
    step (train.py:8)
        Arguments:
            i: 0
    main (train.py:15)
        Arguments:
            rank: 0
        Locals:
            i: 0
    <module> (train.py:16)
Thread 5797 (idle): "pin_memory"
    Condition.wait (threading.py:327)
        Arguments:
            self: <Condition at 0x7fd17bcbe3d0>
            timeout: None
        Locals:
            waiter: <_thread.lock at 0x7fd17bcc9c00>
            saved_state: None
            gotit: False
    Queue.get (queue.py:171)
        Arguments:
            self: <Queue at 0x7fd17bcbde90>
            block: True
            timeout: None
    pin (train.py:10)
        Arguments:
            q: <Queue at 0x7fd17bcbde90>
    Thread.run (threading.py:982)
        Arguments:
            self: <Thread at 0x7fd17bcc91d0>
    Thread._bootstrap_inner (threading.py:1045)
        Arguments:
            self: <Thread at 0x7fd17bcc91d0>
    Thread._bootstrap (threading.py:1002)
        Arguments:
            self: <Thread at 0x7fd17bcc91d0>
""",
"""Process 5560: /usr/bin/python3 -u train.py 1
Python v3.11.7 (/usr/bin/python3.11)

Thread 5560 (idle): "MainThread"
    read (train.py:4)
        Arguments:
            path: "shard-17"
    load (train.py:6)
        Arguments:
            step: 0
    main (train.py:14)
        Arguments:
            rank: 1
        Locals:
            i: 0
    <module> (train.py:16)
Thread 5801 (idle): "pin_memory"
    Condition.wait (threading.py:327)
        Arguments:
            self: <Condition at 0x7fae0a91e3d0>
            timeout: None
        Locals:
            waiter: <_thread.lock at 0x7fae0a929c80>
            saved_state: None
            gotit: False
    Queue.get (queue.py:171)
        Arguments:
            self: <Queue at 0x7fae0a91de90>
            block: True
            timeout: None
    pin (train.py:10)
        Arguments:
            q: <Queue at 0x7fae0a91de90>
    Thread.run (threading.py:982)
        Arguments:
            self: <Thread at 0x7fae0a9291d0>
    Thread._bootstrap_inner (threading.py:1045)
        Arguments:
            self: <Thread at 0x7fae0a9291d0>
    Thread._bootstrap (threading.py:1002)
        Arguments:
            self: <Thread at 0x7fae0a9291d0>
""",
]

JSON = [
"""[{"pid":5559,"thread_id":140537701091008,"thread_name":"pin_memory","os_thread_id":5797,"active":false,"owns_gil":false,"frames":[
{"name":"0x7fd17c2a3f16","filename":"/usr/lib/x86_64-linux-gnu/libc.so.6","module":"/usr/lib/x86_64-linux-gnu/libc.so.6","short_filename":"libc.so.6","line":0,"locals":null,"is_entry":true,"is_shim_entry":true},
{"name":"0x7fd17c2aed90","filename":"/usr/lib/x86_64-linux-gnu/libc.so.6","module":"/usr/lib/x86_64-linux-gnu/libc.so.6","short_filename":"libc.so.6","line":0,"locals":null,"is_entry":true,"is_shim_entry":true},
{"name":"PyThread_acquire_lock_timed","filename":"/usr/lib/libpython3.11.so.1.0","module":"/usr/lib/libpython3.11.so.1.0","short_filename":"libpython3.11.so.1.0","line":0,"locals":null,"is_entry":true,"is_shim_entry":true},
{"name":"lock_PyThread_acquire_lock","filename":"/usr/lib/libpython3.11.so.1.0","module":"/usr/lib/libpython3.11.so.1.0","short_filename":"libpython3.11.so.1.0","line":0,"locals":null,"is_entry":true,"is_shim_entry":true},
{"name":"Condition.wait","filename":"/usr/lib/python3.11/threading.py","module":null,"short_filename":"threading.py","line":327,"locals":null,"is_entry":false,"is_shim_entry":false},
{"name":"Queue.get","filename":"/usr/lib/python3.11/queue.py","module":null,"short_filename":"queue.py","line":171,"locals":null,"is_entry":false,"is_shim_entry":false},
{"name":"pin","filename":"/home/user/train.py","module":null,"short_filename":"train.py","line":10,"locals":null,"is_entry":true,"is_shim_entry":false},
{"name":"Thread.run","filename":"/usr/lib/python3.11/threading.py","module":null,"short_filename":"threading.py","line":982,"locals":null,"is_entry":false,"is_shim_entry":false},
{"name":"Thread._bootstrap_inner","filename":"/usr/lib/python3.11/threading.py","module":null,"short_filename":"threading.py","line":1045,"locals":null,"is_entry":false,"is_shim_entry":false},
{"name":"Thread._bootstrap","filename":"/usr/lib/python3.11/threading.py","module":null,"short_filename":"threading.py","line":1002,"locals":null,"is_entry":true,"is_shim_entry":true},
{"name":"thread_run","filename":"/usr/lib/libpython3.11.so.1.0","module":"/usr/lib/libpython3.11.so.1.0","short_filename":"libpython3.11.so.1.0","line":0,"locals":null,"is_entry":true,"is_shim_entry":true},
{"name":"0x7fd17c2a71f5","filename":"/usr/lib/x86_64-linux-gnu/libc.so.6","module":"/usr/lib/x86_64-linux-gnu/libc.so.6","short_filename":"libc.so.6","line":0,"locals":null,"is_entry":true,"is_shim_entry":true},
{"name":"0x7fd17c3278ec","filename":"/usr/lib/x86_64-linux-gnu/libc.so.6","module":"/usr/lib/x86_64-linux-gnu/libc.so.6","short_filename":"libc.so.6","line":0,"locals":null,"is_entry":true,"is_shim_entry":true}],"process_info":null},
{"pid":5559,"thread_id":140537716050816,"thread_name":"MainThread","os_thread_id":5559,"active":false,"owns_gil":false,"frames":[
{"name":"0x7fd17c2a3f16","filename":"/usr/lib/x86_64-linux-gnu/libc.so.6","module":"/usr/lib/x86_64-linux-gnu/libc.so.6","short_filename":"libc.so.6","line":0,"locals":null,"is_entry":true,"is_shim_entry":true},
{"name":"0x7fd17c2aed90","filename":"/usr/lib/x86_64-linux-gnu/libc.so.6","module":"/usr/lib/x86_64-linux-gnu/libc.so.6","short_filename":"libc.so.6","line":0,"locals":null,"is_entry":true,"is_shim_entry":true},
{"name":"PyThread_acquire_lock_timed","filename":"/usr/lib/libpython3.11.so.1.0","module":"/usr/lib/libpython3.11.so.1.0","short_filename":"libpython3.11.so.1.0","line":0,"locals":null,"is_entry":true,"is_shim_entry":true},
{"name":"lock_PyThread_acquire_lock","filename":"/usr/lib/libpython3.11.so.1.0","module":"/usr/lib/libpython3.11.so.1.0","short_filename":"libpython3.11.so.1.0","line":0,"locals":null,"is_entry":true,"is_shim_entry":true},
{"name":"wait","filename":"/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py","module":null,"short_filename":"torch/distributed/distributed_c10d.py","line":2,"locals":null,"is_entry":false,"is_shim_entry":false},
{"name":"all_reduce","filename":"/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py","module":null,"short_filename":"torch/distributed/distributed_c10d.py","line":5,"locals":null,"is_entry":false,"is_shim_entry":false},
{"name":"step","filename":"/home/user/train.py","module":null,"short_filename":"train.py","line":8,"locals":null,"is_entry":false,"is_shim_entry":false},
{"name":"main","filename":"/home/user/train.py","module":null,"short_filename":"train.py","line":15,"locals":null,"is_entry":false,"is_shim_entry":false},
{"name":"<module>","filename":"/home/user/train.py","module":null,"short_filename":"train.py","line":16,"locals":null,"is_entry":true,"is_shim_entry":true},
{"name":"0x7fd17c24524a","filename":"/usr/lib/x86_64-linux-gnu/libc.so.6","module":"/usr/lib/x86_64-linux-gnu/libc.so.6","short_filename":"libc.so.6","line":0,"locals":null,"is_entry":true,"is_shim_entry":true}],"process_info":null}]
""",
"""[{"pid":5560,"thread_id":140385477613248,"thread_name":"pin_memory","os_thread_id":5801,"active":false,"owns_gil":false,"frames":[
{"name":"0x7fae0aea3f16","filename":"/usr/lib/x86_64-linux-gnu/libc.so.6","module":"/usr/lib/x86_64-linux-gnu/libc.so.6","short_filename":"libc.so.6","line":0,"locals":null,"is_entry":true,"is_shim_entry":true},
{"name":"0x7fae0aeaed90","filename":"/usr/lib/x86_64-linux-gnu/libc.so.6","module":"/usr/lib/x86_64-linux-gnu/libc.so.6","short_filename":"libc.so.6","line":0,"locals":null,"is_entry":true,"is_shim_entry":true},
{"name":"PyThread_acquire_lock_timed","filename":"/usr/lib/libpython3.11.so.1.0","module":"/usr/lib/libpython3.11.so.1.0","short_filename":"libpython3.11.so.1.0","line":0,"locals":null,"is_entry":true,"is_shim_entry":true},
{"name":"lock_PyThread_acquire_lock","filename":"/usr/lib/libpython3.11.so.1.0","module":"/usr/lib/libpython3.11.so.1.0","short_filename":"libpython3.11.so.1.0","line":0,"locals":null,"is_entry":true,"is_shim_entry":true},
{"name":"Condition.wait","filename":"/usr/lib/python3.11/threading.py","module":null,"short_filename":"threading.py","line":327,"locals":null,"is_entry":false,"is_shim_entry":false},
{"name":"Queue.get","filename":"/usr/lib/python3.11/queue.py","module":null,"short_filename":"queue.py","line":171,"locals":null,"is_entry":false,"is_shim_entry":false},
{"name":"pin","filename":"/home/user/train.py","module":null,"short_filename":"train.py","line":10,"locals":null,"is_entry":true,"is_shim_entry":false},
{"name":"Thread.run","filename":"/usr/lib/python3.11/threading.py","module":null,"short_filename":"threading.py","line":982,"locals":null,"is_entry":false,"is_shim_entry":false},
{"name":"Thread._bootstrap_inner","filename":"/usr/lib/python3.11/threading.py","module":null,"short_filename":"threading.py","line":1045,"locals":null,"is_entry":false,"is_shim_entry":false},
{"name":"Thread._bootstrap","filename":"/usr/lib/python3.11/threading.py","module":null,"short_filename":"threading.py","line":1002,"locals":null,"is_entry":true,"is_shim_entry":true},
{"name":"thread_run","filename":"/usr/lib/libpython3.11.so.1.0","module":"/usr/lib/libpython3.11.so.1.0","short_filename":"libpython3.11.so.1.0","line":0,"locals":null,"is_entry":true,"is_shim_entry":true},
{"name":"0x7fae0aea71f5","filename":"/usr/lib/x86_64-linux-gnu/libc.so.6","module":"/usr/lib/x86_64-linux-gnu/libc.so.6","short_filename":"libc.so.6","line":0,"locals":null,"is_entry":true,"is_shim_entry":true},
{"name":"0x7fae0af278ec","filename":"/usr/lib/x86_64-linux-gnu/libc.so.6","module":"/usr/lib/x86_64-linux-gnu/libc.so.6","short_filename":"libc.so.6","line":0,"locals":null,"is_entry":true,"is_shim_entry":true}],"process_info":null},
{"pid":5560,"thread_id":140385491659648,"thread_name":"MainThread","os_thread_id":5560,"active":false,"owns_gil":false,"frames":[
{"name":"clock_nanosleep","filename":"/usr/lib/x86_64-linux-gnu/libc.so.6","module":"/usr/lib/x86_64-linux-gnu/libc.so.6","short_filename":"libc.so.6","line":0,"locals":null,"is_entry":true,"is_shim_entry":true},
{"name":"time_sleep","filename":"/usr/lib/libpython3.11.so.1.0","module":"/usr/lib/libpython3.11.so.1.0","short_filename":"libpython3.11.so.1.0","line":0,"locals":null,"is_entry":true,"is_shim_entry":true},
{"name":"read","filename":"/home/user/train.py","module":null,"short_filename":"train.py","line":4,"locals":null,"is_entry":false,"is_shim_entry":false},
{"name":"load","filename":"/home/user/train.py","module":null,"short_filename":"train.py","line":6,"locals":null,"is_entry":false,"is_shim_entry":false},
{"name":"main","filename":"/home/user/train.py","module":null,"short_filename":"train.py","line":14,"locals":null,"is_entry":false,"is_shim_entry":false},
{"name":"<module>","filename":"/home/user/train.py","module":null,"short_filename":"train.py","line":16,"locals":null,"is_entry":true,"is_shim_entry":true},
{"name":"0x7fae0ae4524a","filename":"/usr/lib/x86_64-linux-gnu/libc.so.6","module":"/usr/lib/x86_64-linux-gnu/libc.so.6","short_filename":"libc.so.6","line":0,"locals":null,"is_entry":true,"is_shim_entry":true}],"process_info":null}]
""",
]
