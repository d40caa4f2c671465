import { connect, type Socket } from 'node:net';

/** A task to read, and whose it is. */
export interface ReadableTask {
  readonly taskId: string;
  readonly user: string;
}

/** How the reads were answered so far. */
export interface ReadAnswers {
  asked: number;
  /** Status 200: a task, a page of tasks, or a stream. */
  served: number;
  /** Any other status. */
  refused: number;
}

/** How many requests go down one connection, none waiting for the answer to the one before. */
const PER_CONNECTION = 100;

/** Of twenty reads so many list tasks; one subscribes, on a connection of its own, since its answer may not end. */
const LISTS = 3;
const ROUND = 20;

/**
 * GetTask, ListTasks and SubscribeToTask over HTTP+JSON, by the thousand and at once: raw requests, pipelined, so that
 * those who ask need nearly nothing for it.
 */
export class PipelinedReads {
  readonly answers: ReadAnswers = { asked: 0, served: 0, refused: 0 };
  private readonly sockets = new Set<Socket>();
  private socket: Socket | undefined;
  private left = 0;

  constructor(
    /** Base URL of a replica. */
    private readonly url: string,
    private readonly tasks: readonly ReadableTask[],
  ) {}

  /** Asks so many times more, at once. */
  ask(times: number): void {
    for (let left = times; left > 0; left -= 1) {
      const task = this.tasks[this.answers.asked % this.tasks.length];
      const place = this.answers.asked % ROUND;
      this.answers.asked += 1;
      if (place === ROUND - 1 && task) this.open().write(this.request('POST', `tasks/${task.taskId}:subscribe`, task));
      else if (place < LISTS || !task) this.pipeline().write(this.request('GET', 'tasks?pageSize=20', task));
      else this.pipeline().write(this.request('GET', `tasks/${task.taskId}`, task));
    }
  }

  /** Hangs up on whatever was not answered. */
  close(): void {
    for (const socket of this.sockets) socket.destroy();
    this.sockets.clear();
  }

  private pipeline(): Socket {
    if (!this.socket || this.left === 0) {
      this.socket = this.open();
      this.left = PER_CONNECTION;
    }
    this.left -= 1;
    return this.socket;
  }

  private open(): Socket {
    const { hostname, port } = new URL(this.url);
    const socket = connect({ host: hostname, port: Number(port) });
    this.sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.sockets.delete(socket);
      if (socket === this.socket) this.socket = undefined;
    });
    socket.on('data', (chunk: Buffer) => this.count(chunk.toString('latin1')));
    return socket;
  }

  /** A status line that falls between two chunks is not seen: what is counted is for people to read. */
  private count(text: string): void {
    for (const [, status] of text.matchAll(/HTTP\/1\.1 (\d{3}) /g)) {
      if (status === '200') this.answers.served += 1;
      else this.answers.refused += 1;
    }
  }

  private request(method: string, path: string, task: ReadableTask | undefined): string {
    const lines = [
      `${method} /a2a/rest/${path} HTTP/1.1`,
      `Host: ${new URL(this.url).host}`,
      'A2A-Version: 1.0',
      ...(task && task.user !== '' ? [`Authorization: Bearer ${task.user}`] : []),
      ...(method === 'POST' ? ['Content-Length: 0'] : []),
    ];
    return `${lines.join('\r\n')}\r\n\r\n`;
  }
}
