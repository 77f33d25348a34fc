# OpenStack Swift as a storage with an S3 interface: its proxy, account, container and object server in one process, on ports of
# their own, with all data below one directory. Says "listening on PORT" when it answers.
#
#   swift-s3.py DIRECTORY CONDITIONS USER:SECRET...
#
# The first user owns the account test; the others have no rights there. CONDITIONS: what becomes of a PUT with If-None-Match. refuses: 501,
# as Swift does by itself; heeds: it is taken only if there is no such object, as at AWS; ignores: it is taken.
import os
import sys

import eventlet
import eventlet.wsgi

eventlet.monkey_patch(all=False, socket=True, select=True, thread=True)

from swift.common import utils, wsgi
from swift.common.middleware.s3api import s3request
from swift.common.ring import RingBuilder

SERVER = '''[DEFAULT]
swift_dir = %(dir)s
devices = %(dir)s/devices
mount_check = false
fallocate_reserve = 0
disable_fallocate = true
bind_ip = 127.0.0.1
bind_port = %(port)d
log_level = ERROR

[pipeline:main]
pipeline = %(kind)s-server

[app:%(kind)s-server]
use = egg:swift#%(kind)s
# Lists must have what was stored, however busy the machine is: nobody adds it later.
container_update_timeout = 60
node_timeout = 60
conn_timeout = 10
'''

PROXY = '''[DEFAULT]
swift_dir = %(dir)s
bind_ip = 127.0.0.1
bind_port = %(port)d
log_level = ERROR

[pipeline:main]
pipeline = catch_errors cache s3api tempauth slo proxy-server

[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
node_timeout = 60
recoverable_node_timeout = 60
conn_timeout = 10

[filter:catch_errors]
use = egg:swift#catch_errors

[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:1

[filter:s3api]
use = egg:swift#s3api

[filter:slo]
use = egg:swift#slo

[filter:tempauth]
use = egg:swift#tempauth
%(users)s
'''


def ring(directory, kind, port):
    builder = RingBuilder(1, 1, 0)
    builder.add_dev({'region': 1, 'zone': 1, 'ip': '127.0.0.1', 'port': port, 'device': 'disk', 'weight': 1,
                     'replication_ip': '127.0.0.1', 'replication_port': port, 'meta': ''})
    builder.rebalance()
    builder.get_ring().save(os.path.join(directory, kind + '.ring.gz'))


def take_conditions(heeds):
    validate, to_swift = s3request.S3Request._validate_headers, s3request.S3Request.to_swift_req

    def validate_others(self):
        condition = self.environ.pop('HTTP_IF_NONE_MATCH', None)
        validate(self)
        if condition:
            self.environ['HTTP_IF_NONE_MATCH'] = condition

    def to_swift_without(self, *args, **kwargs):
        request = to_swift(self, *args, **kwargs)
        request.environ.pop('HTTP_IF_NONE_MATCH', None)
        return request

    s3request.S3Request._validate_headers = validate_others
    if not heeds:
        s3request.S3Request.to_swift_req = to_swift_without


# Of two at once Swift would take both.
def one_at_a_time(app):
    turn = eventlet.semaphore.Semaphore()

    def call(env, start):
        if 'HTTP_IF_NONE_MATCH' not in env:
            return app(env, start)
        with turn:
            return list(app(env, start))

    return call


def serve(directory, name, text, sock):
    path = os.path.join(directory, name + '.conf')
    with open(path, 'w') as out:
        out.write(text)
    # Not wsgi.run_server: it gives the thread another hub, and there are four of them in it. An SDK needs "ETag", and not "Etag".
    app = one_at_a_time(wsgi.loadapp(path, global_conf={'log_name': name}))
    eventlet.spawn(eventlet.wsgi.server, sock, app, wsgi.NullLogger(), protocol=wsgi.SwiftHttpProtocol, capitalize_response_headers=False)


def main(directory, conditions, users):
    if conditions != 'refuses':
        take_conditions(conditions == 'heeds')
    utils.HASH_PATH_SUFFIX = b'of a test'
    os.makedirs(os.path.join(directory, 'devices', 'disk'), exist_ok=True)
    socks = {kind: eventlet.listen(('127.0.0.1', 0)) for kind in ('account', 'container', 'object', 'proxy')}
    ports = {kind: sock.getsockname()[1] for kind, sock in socks.items()}
    for kind in ('account', 'container', 'object'):
        ring(directory, kind, ports[kind])
        serve(directory, kind, SERVER % {'dir': directory, 'port': ports[kind], 'kind': kind}, socks[kind])
    names = []
    for i, user in enumerate(users):
        name, secret = user.split(':')
        names.append('user_test_%s = %s%s' % (name, secret, ' .admin' if i == 0 else ''))
    serve(directory, 'proxy', PROXY % {'dir': directory, 'port': ports['proxy'], 'users': '\n'.join(names)}, socks['proxy'])
    eventlet.sleep(0)
    print('listening on %d' % ports['proxy'], flush=True)
    while True:
        eventlet.sleep(3600)


main(os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3:])
