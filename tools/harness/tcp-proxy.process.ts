import { createServer, connect, type AddressInfo, type Socket } from 'node:net';

/**
 * The proxy's own process, so that no fault it plays stands still with the test. It is told what to do over Node's IPC
 * channel, and ends with it.
 */

/** What happens to the bytes of one direction. Nothing here tells either end: no FIN, no RST, until a `cut`. */
export type Flow =
  /** They go on at once. */
  | { kind: 'pass' }
  /** They go on after so many ms, in order. */
  | { kind: 'delay'; ms: number }
  /** They wait for the next `pass`, as in a network that is cut and heals: TCP sends them again. */
  | { kind: 'hold' }
  /** They are gone. Whoever passes after this must not be trusted: cut it. */
  | { kind: 'swallow' };

export type Direction = 'toServer' | 'toClient';

/** One text, or one of several. */
export type AnyText = string | readonly string[];

export type Command =
  /** For the connections on which the client has ever sent the text; without one for all, new ones included. */
  | { do: 'flow'; flow: Flow; directions: Direction[]; sent?: AnyText }
  /** Ends them with a reset on both sides. */
  | { do: 'cut'; sent?: AnyText }
  /** The next chunk that holds the text, and what the client sends after it on its connection, is held. */
  | { do: 'trap'; text: AnyText; name: string }
  | { do: 'count'; sent?: AnyText };

export type Answer = { id: number; count: number } | { trapped: string } | { port: number };

/** How much of what a client sent is remembered, to tell connections apart: the first and the last of it. */
const REMEMBERED = 64 * 1024;

const [host = '', port = ''] = process.argv.slice(2);
const links = new Set<Link>();
/** By name. */
const traps = new Map<string, AnyText>();
let initial: Record<Direction, Flow> = { toServer: { kind: 'pass' }, toClient: { kind: 'pass' } };

/** One direction of a connection: a queue between two sockets. */
class Pipe {
  private queue: { chunk: Buffer | 'end'; dueAt: number }[] = [];
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private flow: Flow,
    private readonly target: Socket,
  ) {}

  set(flow: Flow): void {
    this.flow = flow;
    this.pump();
  }

  push(chunk: Buffer | 'end'): void {
    if (this.flow.kind === 'swallow' && chunk !== 'end') return;
    const delayMs = this.flow.kind === 'delay' ? this.flow.ms : 0;
    this.queue.push({ chunk, dueAt: performance.now() + delayMs });
    this.pump();
  }

  private pump(): void {
    clearTimeout(this.timer);
    if (this.flow.kind === 'hold' || this.flow.kind === 'swallow') return;
    for (let next = this.queue[0]; next; next = this.queue[0]) {
      const early = this.flow.kind === 'delay' ? next.dueAt - performance.now() : 0;
      if (early > 0) {
        this.timer = setTimeout(() => this.pump(), early);
        return;
      }
      this.queue.shift();
      if (next.chunk === 'end') this.target.end();
      else this.target.write(next.chunk);
    }
  }
}

/** A client's connection and the one to the server that stands for it. */
class Link {
  private readonly server = connect(Number(port), host);
  private readonly pipes: Record<Direction, Pipe>;
  private head = '';
  private tail = '';

  constructor(private readonly client: Socket) {
    this.pipes = { toServer: new Pipe(initial.toServer, this.server), toClient: new Pipe(initial.toClient, client) };
    client.on('data', (chunk: Buffer) => this.fromClient(chunk));
    this.server.on('data', (chunk: Buffer) => this.pipes.toClient.push(chunk));
    for (const [socket, pipe] of [
      [client, this.pipes.toServer] as const,
      [this.server, this.pipes.toClient] as const,
    ]) {
      socket.setNoDelay(true);
      socket.on('error', () => undefined);
      // The end of one side travels like its bytes: a partition hides it, and shows it when it heals.
      socket.on('close', () => pipe.push('end'));
    }
    this.server.on('close', () => client.destroyed && links.delete(this));
    client.on('close', () => this.server.destroyed && links.delete(this));
  }

  hasSent(text: AnyText | undefined): boolean {
    return text === undefined || holds(this.head, text) || holds(this.tail, text);
  }

  set(direction: Direction, flow: Flow): void {
    this.pipes[direction].set(flow);
  }

  cut(): void {
    links.delete(this);
    for (const socket of [this.client, this.server]) socket.resetAndDestroy();
  }

  private fromClient(chunk: Buffer): void {
    const text = chunk.toString('latin1');
    if (this.head.length < REMEMBERED) this.head += text;
    this.tail = (this.tail + text).slice(-REMEMBERED);
    for (const [name, wanted] of traps) {
      if (!holds(text, wanted)) continue;
      traps.delete(name);
      this.set('toServer', { kind: 'hold' });
      say({ trapped: name });
    }
    this.pipes.toServer.push(chunk);
  }
}

function holds(sent: string, text: AnyText): boolean {
  return [text].flat().some((one) => sent.includes(one));
}

function obey(command: Command): number {
  if (command.do === 'trap') {
    traps.set(command.name, command.text);
    return 0;
  }
  const chosen = [...links].filter((link) => link.hasSent(command.sent));
  if (command.do === 'cut') for (const link of chosen) link.cut();
  if (command.do === 'flow') {
    for (const direction of command.directions) {
      if (command.sent === undefined) initial = { ...initial, [direction]: command.flow };
      for (const link of chosen) link.set(direction, command.flow);
    }
  }
  return chosen.length;
}

function say(answer: Answer): void {
  process.send?.(answer);
}

const listener = createServer((client) => links.add(new Link(client)));
listener.listen(0, '127.0.0.1', () => say({ port: (listener.address() as AddressInfo).port }));
process.on('message', ({ id, command }: { id: number; command: Command }) => say({ id, count: obey(command) }));
process.on('disconnect', () => process.exit());
