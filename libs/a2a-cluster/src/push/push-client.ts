import { type LookupAddress, lookup as resolveName } from 'node:dns';
import { Agent as HttpAgent, type ClientRequest, type IncomingMessage, request as requestHttp } from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';
import type { LookupFunction, Socket } from 'node:net';
import type { PushTargetGuard } from './push-target.guard.js';

/** What is sent to a receiver. */
export interface PushRequest {
  url: string;
  headers: Record<string, string>;
  body: string;
}

/** How a receiver took it. The reason names host and status, and nothing of the URL's path or of secrets. */
export type PushAnswer = { taken: true } | { taken: false; reason: string; gone: boolean };

const GONE = 410;

/** Idle connections are kept for this long, in ms: the next event of a task often comes soon. */
const KEEP_ALIVE_MS = 5_000;

class RefusedTargetError extends Error {}

/**
 * Sends notifications, to addresses that the guard permits: every connection is judged by the address it is made to, at
 * the moment it is made. Redirects are not followed: where they lead is the receiver's to register.
 */
export class PushClient {
  private readonly http: HttpAgent;
  private readonly https: HttpsAgent;

  constructor(
    private readonly guard: PushTargetGuard,
    private readonly timeoutMs: number,
  ) {
    const options = { keepAlive: true, timeout: KEEP_ALIVE_MS, maxFreeSockets: 64 };
    this.http = new HttpAgent(options);
    this.https = new HttpsAgent(options);
  }

  /** Never rejects: whatever goes wrong is a notification that was not taken. */
  async post({ url, headers, body }: PushRequest, stop: AbortSignal): Promise<PushAnswer> {
    const target = new URL(url);
    try {
      const refusal = this.guard.refusalOfUrl(target);
      if (refusal) throw new RefusedTargetError(refusal);
      const status = await this.send(target, headers, body, stop);
      if (status >= 200 && status < 300) return { taken: true };
      const what = status >= 300 && status < 400 ? ' (redirects are not followed)' : '';
      return { taken: false, reason: `${target.host} answered ${status}${what}`, gone: status === GONE };
    } catch (error) {
      return { taken: false, reason: `${target.host}: ${reasonOf(error)}`, gone: false };
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
    const timer = setTimeout(() => abort(`no answer within ${this.timeoutMs} ms`), this.timeoutMs);
    const stopped = (): void => abort('the replica is shutting down');
    if (stop.aborted) stopped();
    stop.addEventListener('abort', stopped, { once: true });
    const answered = new Promise<number>((resolve, reject) => {
      outgoing.once('socket', (socket) => this.judge(socket, target.protocol, outgoing));
      outgoing.once('error', reject);
      outgoing.once('close', () => reject(new Error('the connection was closed')));
      outgoing.once('response', (response: IncomingMessage) => {
        // Read to its end, so that the connection can be used again; how long that takes counts.
        response.resume();
        response.once('error', reject);
        response.once('end', () => resolve(response.statusCode ?? 0));
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
      resolveName(hostname, { ...options, all: true }, (error, found: LookupAddress[] = []) => {
        if (error) return callback(error, '', 0);
        const refusals = found.map(({ address }) => this.guard.refusal(address, protocol));
        const permitted = found.filter((_, at) => refusals[at] === undefined);
        const [first] = permitted;
        if (!first) return callback(new RefusedTargetError(refusals[0] ?? 'it has no IP address'), '', 0);
        if (options.all) callback(null, permitted);
        else callback(null, first.address, first.family);
      });
    };
  }

  /** What was connected to after all, however that came about. */
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
  return error instanceof Error ? error.message : 'it could not be reached';
}
