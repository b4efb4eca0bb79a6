# Sends 4 MiB to an echo, says that this was all, and only then reads the end.
import os
import socket
import sys
import threading

said = os.urandom(4 << 20)
heard = bytearray()
half = threading.Event()
with socket.create_connection((sys.argv[1], 7000), timeout=60) as conn:
    def read():
        while part := conn.recv(1 << 16):
            heard.extend(part)
            if len(heard) > 1 << 20:
                half.wait(1)  # the rest stays under way, and may hold up the writer
    reader = threading.Thread(target=read)
    reader.start()
    conn.sendall(said[:2 << 20])
    half.set()
    conn.sendall(said[2 << 20:])
    conn.shutdown(socket.SHUT_WR)
    reader.join()
print('the same' if heard == said else 'something else', len(heard))
