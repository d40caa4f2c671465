import { type LookupAddress, lookup } from 'node:dns';
import { Agent as HttpAgent, type ClientRequest, type IncomingMessage, request as requestHttp } from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';
import type { LookupFunction, Socket } from 'node:net';
import { Injectable } from '@nestjs/common';
import { messageOf } from '../errors/described.js';
import { PushTargetGuard } from './push-target.guard.js';
import { ResolvedOptions } from '../options/cluster.options.js';
import { RefusedTargetError } from '../errors/refused-target.error.js';

/** A POST to a receiver. */
export interface PushRequest {
  url: string;
  headers: Record<string, string>;
  body: string;
}

/** How a receiver took it. The reason names host and status, and nothing of the URL's path or of secrets. */
export type PushAnswer = { taken: true } | { taken: false; reason: string; gone: boolean };

/** Looks up the addresses of a name, as `lookup` of `node:dns` does. */
export type ResolveName = (
  hostname: string,
  options: { all: true },
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

const GONE = 410;

/** The body of an answer is read for the connection's sake only, up to so many bytes and for so long, in ms. */
const MAX_BODY_BYTES = 64 * 1024;
const MAX_BODY_MS = 1_000;

/**
 * Idle connections are kept for this long, in ms: the next event of a task often comes soon. Many servers close theirs
 * after 5 s, and what is sent in that moment is lost.
 */
const KEEP_ALIVE_MS = 4_000;

/**
 * Sends notifications, to addresses that the guard permits: every connection is judged by the address it is made to, at
 * the moment it is made. Redirects are not followed: where they lead is the receiver's to register.
 */
@Injectable()
export class PushClient {
  /** Looks a name up. */
  protected readonly resolve: ResolveName = lookup;
  private readonly timeoutMs: number;
  private readonly http: HttpAgent;
  private readonly https: HttpsAgent;
  private readonly lookups = new Map<string, Promise<LookupAddress[]>>();

  constructor(
    private readonly guard: PushTargetGuard,
    { push }: ResolvedOptions,
  ) {
    this.timeoutMs = push.timeoutMs;
    const options = { keepAlive: true, timeout: KEEP_ALIVE_MS, maxFreeSockets: 64 };
    this.http = new HttpAgent(options);
    this.https = new HttpsAgent(options);
  }

  /** Never rejects: whatever goes wrong is a notification that was not taken. */
  async post({ url, headers, body }: PushRequest, stop: AbortSignal): Promise<PushAnswer> {
    let host = 'the receiver';
    try {
      const target = new URL(url);
      host = target.host;
      const refusal = this.guard.refusalOfUrl(target);
      if (refusal) throw new RefusedTargetError(refusal);
      const status = await this.send(target, headers, body, stop);
      if (status >= 200 && status < 300) return { taken: true };
      const what = status >= 300 && status < 400 ? ' (redirects are not followed)' : '';
      return { taken: false, reason: `${host} answered ${status}${what}`, gone: status === GONE };
    } catch (error) {
      return { taken: false, reason: `${host}: ${reasonOf(error)}`, gone: false };
    }
  }

  close(): void {
    this.http.destroy();
    this.https.destroy();
  }

  private send(target: URL, headers: Record<string, string>, body: string, stop: AbortSignal): Promise<number> {
    const secure = target.protocol === 'https:';
    const outgoing = (secure ? requestHttps : requestHttp)(target, {
      method: 'POST',
      headers: { ...headers, 'content-length': Buffer.byteLength(body) },
      agent: secure ? this.https : this.http,
      lookup: this.lookup(target.protocol),
    });
    const abort = (why: string): void => void outgoing.destroy(new Error(why));
    let timer = setTimeout(() => abort(`no answer within ${this.timeoutMs} ms`), this.timeoutMs);
    const stopped = (): void => abort('the replica is shutting down');
    if (stop.aborted) stopped();
    stop.addEventListener('abort', stopped, { once: true });
    const answered = new Promise<number>((resolve, reject) => {
      let status: number | undefined;
      // The status is the answer, whatever becomes of the rest.
      const end = (error: Error): void => (status === undefined ? reject(error) : resolve(status));
      outgoing.once('socket', (socket) => this.judge(socket, target.protocol, outgoing));
      outgoing.on('error', end);
      outgoing.once('close', () => end(new Error('the connection was closed')));
      outgoing.once('upgrade', (_, socket) => socket.destroy());
      outgoing.once('response', (response: IncomingMessage) => {
        status = response.statusCode ?? 0;
        clearTimeout(timer);
        timer = setTimeout(() => abort('its body goes on'), MAX_BODY_MS);
        let left = MAX_BODY_BYTES;
        response.on('data', (chunk: Buffer) => {
          left -= chunk.length;
          if (left < 0) abort('its body goes on');
        });
        response.on('error', end);
        response.once('end', () => resolve(status!));
      });
    });
    outgoing.end(body);
    return answered.finally(() => {
      clearTimeout(timer);
      stop.removeEventListener('abort', stopped);
    });
  }

  /** Of the addresses of a name, those that may be connected to. */
  private lookup(protocol: string): LookupFunction {
    return (hostname, options, callback) => {
      const permit = (found: LookupAddress[]): void => {
        const refusals = found.map(({ address }) => this.guard.refusal(address, protocol));
        const permitted = found.filter((_, at) => refusals[at] === undefined);
        const [first] = permitted;
        if (!first) return callback(new RefusedTargetError(refusals[0] ?? 'it has no IP address'), '', 0);
        if (options.all) callback(null, permitted);
        else callback(null, first.address, first.family);
      };
      this.addressesOf(hostname).then(permit, (error: NodeJS.ErrnoException) => callback(error, '', 0));
    };
  }

  /** One look-up at a time for each name: they take threads of which there are few, and one that hangs keeps its. */
  private addressesOf(hostname: string): Promise<LookupAddress[]> {
    const pending =
      this.lookups.get(hostname) ??
      new Promise<LookupAddress[]>((resolve, reject) => {
        this.resolve(hostname, { all: true }, (error, found) => (error ? reject(error) : resolve(found)));
      }).finally(() => this.lookups.delete(hostname));
    this.lookups.set(hostname, pending);
    return pending;
  }

  /** Checks the address that a socket has really connected to. */
  private judge(socket: Socket, protocol: string, outgoing: ClientRequest): void {
    const check = (): void => {
      const { remoteAddress } = socket;
      const refusal = remoteAddress === undefined ? undefined : this.guard.refusal(remoteAddress, protocol);
      if (refusal) outgoing.destroy(new RefusedTargetError(refusal));
    };
    if (socket.connecting) socket.once('connect', check);
    else check();
  }
}

/** Codes and our own words; a system error's message may hold more than is anybody's business. */
function reasonOf(error: unknown): string {
  if (error instanceof RefusedTargetError) return `not connected to, ${error.message}`;
  const code = (error as { code?: unknown }).code;
  if (typeof code === 'string') return code;
  return messageOf(error);
}
