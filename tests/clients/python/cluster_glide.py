"""valkey-glide writes and reads back: cluster_glide.py PORT SECONDS TAGS"""
import asyncio
import importlib.metadata
import sys
import time

from glide import GlideClusterClient, GlideClusterClientConfiguration, GlideError, NodeAddress

from cluster_record import KEYS, Record

record = Record(importlib.metadata.version("valkey-glide"))


async def attempt(client, number):
    value = record.next_value(number)
    try:
        await client.set(record.key(number), str(value))
        record.written(number, value)
        record.read(number, await client.get(record.key(number)))
    except GlideError as error:
        record.error(error)
        await asyncio.sleep(0.1)


async def read_all(client):
    for number in range(KEYS):
        for _ in range(100):
            try:
                record.read(number, await client.get(record.key(number)))
                break
            except GlideError as error:
                record.error(error)
                await asyncio.sleep(0.2)


async def write(client, first, end):
    turn = first
    while time.monotonic() < end:
        await attempt(client, turn * 7 % KEYS)
        turn += 4


async def main():
    addresses = [NodeAddress("127.0.0.1", int(sys.argv[1]))]
    client = await GlideClusterClient.create(GlideClusterClientConfiguration(addresses, request_timeout=5000))
    end = time.monotonic() + int(sys.argv[2])
    await asyncio.gather(*(write(client, first, end) for first in range(4)))
    await read_all(client)
    await client.close()
    record.print()


asyncio.run(main())
