import os

from pytest_redis import factories

server = factories.redis_proc(executable=os.environ["WARMLINE_SERVER"])
redisdb = factories.redisdb("server")
