#!/usr/bin/env python3
"""A small S3 server for tests: objects in memory, on a port of the loopback that lives as long as one command.

    server.py [OPTION...] -- COMMAND ARGUMENT...

The command finds the server by AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and so on, and a bucket that exists by S3_STORE
(s3://bkt), and its process by S3_SERVER. The server's exit code is that of the command. Every request must have a right signature of version 4, and a
body that its hash fits. If a key of access, or a signature, was in what came to be stored, also for a moment, the exit
code is 1.

    --ignore-condition   If-None-Match is not looked at, as old servers do
    --ignore-joined      the same, but only where parts are joined
    --no-metadata        metadata of objects is dropped
    --tls                over TLS, with a certificate that is made for it (needs openssl)
    --token TEXT         requests must carry this token of a session
    --skew SECONDS       the server's clock is so much ahead
    --page N             at most N names in a page of a listing
    --storm PERCENT      so many requests are answered with 503, at random
    --lost PERCENT       so many requests are done, and the connection is closed instead of an answer
    --seed N             of these
    --log FILE           a line for each request: status, method, target

A key names its own faults: a component has ~VERB-FAULT-COUNT, as in "k~put-503-2". VERB is put, get, head, list, delete,
post or any. The first COUNT such requests for this very key fail:

    NUMBER   this HTTP status, and nothing is done
    lost     done, and the connection is closed instead of an answer
    reset    not done, and the connection is closed
    early    not done, and the connection is closed before the body is read
    hang     nothing happens for five seconds
    cut      half of the body, then the connection is closed
    drip     the body comes with a byte in half a second
    fewer    a range has a byte less than it says
    more     a range has a byte more than was asked for
    other    another range than was asked for
    half     a document ends in the middle, with the right length
    again    a listing says that there is more, by the same token
    turns    the same, by two tokens in turn
    plain    404 without a document, as from a proxy
    page     200 with a page and without an ETag, as from a proxy
    wrong    200 with an ETag of other bytes than those that are stored
    meet     a part waits for another one of the same object; 403 if none comes in ten seconds
    accepted 202 with an ETag, and nothing is done
    noid     an upload in parts, or a list of them, with an empty id
    old      an upload in parts that was begun eight days ago
    expired  400 ExpiredToken
    error    200 with a document that is an error"""
import argparse
import calendar
import hashlib
import hmac
import http.server
import os
import random
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from xml.sax.saxutils import escape

KEY, SECRET, REGION = "AKIATEST", "SECRET/TEST+KEY", "us-east-1"
FAULT = re.compile(r"~(put|get|head|list|delete|post|any)-([a-z0-9]+)-(\d+)")


def sign(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


class Store:
    def __init__(self):
        self.lock = threading.Lock()
        self.objects, self.uploads, self.faults = {}, {}, {}
        self.number = 0
        self.leaks = set()


class Refusal(Exception):
    def __init__(self, status, code):
        self.status, self.code = status, code


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, *args):
        pass

    def date_time_string(self, timestamp=None):
        return super().date_time_string((timestamp or time.time()) + self.options.skew)

    # ---- what is asked for ----

    def check_signature(self, query):
        words = dict(re.findall(r"(\w+)=([^,\s]+)", self.headers.get("authorization", "")))
        credential = words.get("Credential", "").split("/")
        if len(credential) != 5 or credential[0] != KEY:
            raise Refusal(403, "InvalidAccessKeyId")
        names = words["SignedHeaders"].split(";")
        sent = [name.lower() for name in self.headers if name.lower().startswith("x-amz-") or name.lower() in ("host", "range", "if-none-match")]
        if sorted(names) != names or set(sent) - set(names):
            raise Refusal(403, "AccessDenied")
        path, _, _ = self.path.partition("?")
        pairs = sorted((urllib.parse.quote(k, safe="-._~"), urllib.parse.quote(v, safe="-._~")) for k, v in query)
        headers = "".join(f"{name}:{' '.join(self.headers[name].split())}\n" for name in names)
        canonical = "\n".join([self.command, urllib.parse.quote(urllib.parse.unquote(path), safe="/-._~"),
                               "&".join(f"{k}={v}" for k, v in pairs), headers, ";".join(names),
                               self.headers["x-amz-content-sha256"]])
        stamp, scope = self.headers["x-amz-date"], "/".join(credential[1:])
        text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        key = ("AWS4" + SECRET).encode()
        for part in credential[1:]:
            key = sign(key, part)
        if credential[1:] != [stamp[:8], REGION, "s3", "aws4_request"] or \
                not hmac.compare_digest(sign(key, text).hex(), words.get("Signature", "")):
            raise Refusal(403, "SignatureDoesNotMatch")
        if abs(calendar.timegm(time.strptime(stamp, "%Y%m%dT%H%M%SZ")) - time.time() - self.options.skew) > 900:
            raise Refusal(403, "RequestTimeTooSkewed")
        if self.options.token and self.headers.get("x-amz-security-token") != self.options.token:
            raise Refusal(403, "InvalidToken")

    def look_for_secrets(self, bucket_and_key, body):
        """In an object's bytes, its name and its metadata."""
        told = "\n".join([bucket_and_key, *(value for _, value in self.metadata())]).encode() + body
        if any(secret.encode() in told for secret in (KEY, SECRET, "Signature=", self.options.token) if secret):
            with self.store.lock:
                self.store.leaks.add(f"{self.command} {bucket_and_key}")

    def find_fault(self, verb, key):
        for wanted, kind, count in FAULT.findall(key):
            if wanted not in (verb, "any"):
                continue
            with self.store.lock:
                used = self.store.faults.get((key, wanted, kind), 0)
                self.store.faults[key, wanted, kind] = used + 1
            if used < int(count):
                return kind
        roll = self.options.random.random() * 100
        if roll < self.options.storm:
            return "503"
        return "lost" if roll < self.options.storm + self.options.lost else ""

    # ---- answers ----

    def answer(self, status, body=b"", headers=(), cut=None, drip=False):
        if self.options.log:
            with self.store.lock, open(self.options.log, "a") as file:
                file.write(f"{status} {self.command} {self.path}\n")
        self.send_response(status)
        names = [name.lower() for name, _ in headers]
        for name, value in headers:
            self.send_header(name, value)
        if "content-length" not in names:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            if drip:
                for i in range(len(body)):
                    self.wfile.write(body[i:i + 1])
                    self.wfile.flush()
                    time.sleep(0.5)
            else:
                self.wfile.write(body if cut is None else body[:cut])
        self.wfile.flush()
        if cut is not None:
            self.close_connection = True

    def refuse(self, status, code):
        body = f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><AWSAccessKeyId>{KEY}</AWSAccessKeyId></Error>'
        self.answer(status, body.encode() if self.command != "HEAD" else b"")

    def document(self, root, text, fault):
        body = f'<?xml version="1.0" encoding="UTF-8"?>\n<{root} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{text}</{root}>'.encode()
        if fault == "half":
            body = body[:len(body) // 2]
        self.answer(200, body, cut=len(body) // 2 if fault == "cut" else None, drip=fault == "drip")

    # ---- verbs ----

    def handle_request(self):
        if "-early-" in self.path and self.find_fault(self.command.lower(), urllib.parse.unquote(self.path.partition("?")[0])) == "early":
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, text = self.path.partition("?")
        query = urllib.parse.parse_qsl(text, keep_blank_values=True)
        host = self.headers["host"]
        path = urllib.parse.unquote(path)
        self.look_for_secrets(path, body)
        bucket, _, key = ("bkt" + path if host.startswith("bkt.") else path[1:]).partition("/")
        try:
            self.check_signature(query)
            if hashlib.sha256(body).hexdigest() != self.headers["x-amz-content-sha256"]:
                raise Refusal(400, "XAmzContentSHA256Mismatch")
            if bucket != "bkt":
                raise Refusal(404, "NoSuchBucket")
            self.serve(key, dict(query), body)
        except Refusal as refusal:
            self.refuse(refusal.status, refusal.code)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = handle_request

    def serve(self, key, query, body):
        verb = "list" if not key else self.command.lower()
        fault = self.find_fault(verb, key or query.get("prefix", ""))
        if fault.isdigit():
            raise Refusal(int(fault), {"409": "ConditionalRequestConflict", "503": "SlowDown"}.get(fault, "InternalError"))
        if fault == "expired":
            raise Refusal(400, "ExpiredToken")
        if fault == "plain":
            self.answer(404, b"<html>nothing here</html>")
            return
        if fault == "page":
            self.answer(200, b"<html>log in first</html>")
            return
        if fault == "accepted":
            self.answer(202, headers=[("ETag", '"later"')])
            return
        if fault == "hang":
            time.sleep(5)
        if fault == "reset":
            self.close_connection = True
            return
        if fault == "lost":
            self.answer = lambda *args, **more: setattr(self, "close_connection", True)
        {"list": self.list, "put": self.put, "get": self.get, "head": self.get, "delete": self.delete,
         "post": self.post}[verb](key, query, body, fault)
        if fault == "lost":
            del self.answer

    def condition_fails(self, key, is_joined):
        is_ignored = self.options.ignore_condition or (is_joined and self.options.ignore_joined)
        return self.headers.get("if-none-match") == "*" and key in self.store.objects and not is_ignored

    def metadata(self):
        return () if self.options.no_metadata else tuple(
            (name, value) for name, value in self.headers.items() if name.lower().startswith("x-amz-meta-"))

    def meet_another_part(self, query):
        for _ in range(1000):
            with self.store.lock:
                if set(self.store.uploads[query["uploadId"]][2]) - {int(query["partNumber"])}:
                    return
            time.sleep(0.01)
        raise Refusal(403, "Alone")

    def put(self, key, query, body, fault):
        if fault == "meet":
            self.meet_another_part(query)
        etag = '"' + hashlib.md5(body).hexdigest() + '"'
        with self.store.lock:
            if "uploadId" in query:
                if query["uploadId"] not in self.store.uploads:
                    raise Refusal(404, "NoSuchUpload")
                self.store.uploads[query["uploadId"]][2][int(query["partNumber"])] = etag, body
            elif self.condition_fails(key, False):
                raise Refusal(412, "PreconditionFailed")
            else:
                self.store.objects[key] = body, self.metadata()
        self.answer(200, headers=[("ETag", etag if fault != "wrong" else '"' + hashlib.md5(body + b"x").hexdigest() + '"')])

    def post(self, key, query, body, fault):
        if "uploads" in query:
            with self.store.lock:
                self.store.number += 1
                name = f"upload+{self.store.number}/x=" if fault != "noid" else ""
                self.store.uploads[name] = key, self.metadata(), {}, time.time() - 8 * 86400 * (fault == "old")
            self.document("InitiateMultipartUploadResult", f"<UploadId>{escape(name)}</UploadId>", fault)
            return
        if fault == "error":
            self.answer(200, b"<Error><Code>InternalError</Code></Error>")
            return
        with self.store.lock:
            if query["uploadId"] not in self.store.uploads:
                raise Refusal(404, "NoSuchUpload")
            if self.condition_fails(key, True):
                raise Refusal(412, "PreconditionFailed")
            _, metadata, parts, _ = self.store.uploads[query["uploadId"]]
            wanted = re.findall(rb"<Part><PartNumber>(\d+)</PartNumber><ETag>([^<]*)</ETag></Part>", body)
            if [(int(n), e.decode().replace("&quot;", '"')) for n, e in wanted] != [(n, parts[n][0]) for n in sorted(parts)]:
                raise Refusal(400, "InvalidPart")
            if any(len(parts[n][1]) < 5 << 20 for n in sorted(parts)[:-1]):
                raise Refusal(400, "EntityTooSmall")
            self.store.objects[key] = b"".join(parts[n][1] for n in sorted(parts)), metadata
            del self.store.uploads[query["uploadId"]]
        self.document("CompleteMultipartUploadResult", "<ETag>&quot;joined-2&quot;</ETag>", fault)

    def get(self, key, query, body, fault):
        with self.store.lock:
            if key not in self.store.objects:
                raise Refusal(404, "NoSuchKey")
            data, metadata = self.store.objects[key]
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range") or "")
        if not wanted or self.command == "HEAD":
            self.answer(200, b"" if self.command == "HEAD" else data, [*metadata, ("Content-Length", str(len(data)))])
            return
        first, last = int(wanted[1]), min(int(wanted[2]), len(data) - 1)
        if first >= len(data):
            self.answer(416, b"<Error><Code>InvalidRange</Code></Error>", [("Content-Range", f"bytes */{len(data)}")])
            return
        given = f"bytes {first}-{last}/{len(data)}"
        part = data[first:last + 1]
        if fault == "fewer":
            part = part[:-1]
        elif fault == "more":
            part += b"x"
        elif fault == "other":
            given = f"bytes {first + 1}-{last + 1}/{len(data) + 1}"
        self.answer(206, part, [*metadata, ("Content-Range", given)], cut=len(part) // 2 if fault == "cut" else None,
                    drip=fault == "drip")

    def delete(self, key, query, body, fault):
        with self.store.lock:
            if query.get("uploadId"):
                self.store.uploads.pop(query["uploadId"], None)
            else:  # also with an empty id
                self.store.objects.pop(key, None)
        self.answer(204)

    def list_uploads(self, query, fault):
        after = query.get("key-marker", ""), query.get("upload-id-marker", "")
        with self.store.lock:
            found = sorted((key, name, begun) for name, (key, _, _, begun) in self.store.uploads.items()
                           if key.startswith(query.get("prefix", "")) and (key, name) > after)
        page = found[:self.options.page]
        text = "".join(f"<Upload><Initiated>{time.strftime('%Y-%m-%dT%H:%M:%S.000Z', time.gmtime(begun))}</Initiated>"
                       f"<Key>{escape(key)}</Key><UploadId>{escape(name) if fault != 'noid' else ''}</UploadId></Upload>" for key, name, begun in page)
        if len(found) > len(page):
            text += f"<NextKeyMarker>{escape(page[-1][0])}</NextKeyMarker><NextUploadIdMarker>{escape(page[-1][1])}</NextUploadIdMarker>"
        is_more = str(len(found) > len(page)).lower()
        self.document("ListMultipartUploadsResult", f"{text}<IsTruncated>{is_more}</IsTruncated>", fault)

    def list(self, key, query, body, fault):
        if "uploads" in query:
            self.list_uploads(query, fault)
            return
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("start-after") or ""
        after = after.removeprefix("token:")
        most = min(int(query.get("max-keys", 1000)), self.options.page)
        names = {}
        with self.store.lock:
            for name in self.store.objects:
                if not name.startswith(prefix):
                    continue
                end = name.find(delimiter, len(prefix)) if delimiter else -1
                names[name if end < 0 else name[:end + 1]] = end >= 0
        found = sorted(name for name in names if name > after and not (names[name] and after.startswith(name)))
        text = "".join(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" if names[name] else
                       f"<Contents><Key>{escape(name)}</Key><Size>1</Size></Contents>" for name in found[:most])
        is_more = len(found) > most or fault in ("again", "turns")
        turn = "two" if fault == "turns" and after == "one" else "one"
        token = "token:" + (found[most - 1] if len(found) > most else turn)
        if is_more:
            text += f"<NextContinuationToken>{escape(token)}</NextContinuationToken>"
        self.document("ListBucketResult", f"<Name>bkt</Name><IsTruncated>{str(is_more).lower()}</IsTruncated>{text}", fault)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], (ConnectionError, OSError)):
            super().handle_error(request, client_address)


def secure(socket, folder):
    if not shutil.which("openssl"):
        print("skipped: there is no openssl to make a certificate")
        sys.exit(77)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
                    "subjectAltName=IP:127.0.0.1", "-keyout", f"{folder}/key", "-out", f"{folder}/certificate"],
                   check=True, stderr=subprocess.DEVNULL)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{folder}/certificate", f"{folder}/key")
    return context.wrap_socket(socket, server_side=True, do_handshake_on_connect=False)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ignore-condition", action="store_true")
    parser.add_argument("--ignore-joined", action="store_true")
    parser.add_argument("--no-metadata", action="store_true")
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--token")
    parser.add_argument("--skew", type=int, default=0)
    parser.add_argument("--page", type=int, default=1000)
    parser.add_argument("--storm", type=float, default=0)
    parser.add_argument("--lost", type=float, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    options.random = random.Random(options.seed)
    Handler.options, Handler.store = options, Store()
    server = Server(("127.0.0.1", 0), Handler)
    folder = tempfile.TemporaryDirectory()
    if options.tls:
        server.socket = secure(server.socket, folder.name)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "VARVE_STORE"))}
    environment.update(AWS_ENDPOINT_URL=f"http{'s' * options.tls}://127.0.0.1:{server.server_port}", AWS_ACCESS_KEY_ID=KEY,
                       AWS_SECRET_ACCESS_KEY=SECRET, AWS_REGION=REGION, S3_STORE="s3://bkt", S3_SERVER=str(os.getpid()), no_proxy="*")
    if options.log:
        environment["S3_LOG"] = options.log
    if options.tls:
        environment["AWS_CA_BUNDLE"] = f"{folder.name}/certificate"
    if options.token:
        environment["AWS_SESSION_TOKEN"] = options.token
    child = subprocess.Popen(options.command, env=environment)
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    code = child.wait()
    for leak in sorted(Handler.store.leaks):
        print(f"server.py: a secret came with {leak}", file=sys.stderr)
    return code or int(bool(Handler.store.leaks))


if __name__ == "__main__":
    sys.exit(main())
