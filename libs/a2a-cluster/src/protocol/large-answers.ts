import { Injectable } from '@nestjs/common';
import type { StreamResponse, Task } from '@a2a-js/sdk';
import { TaskNotFoundError } from '@a2a-js/sdk/errors';
import { turnOfTheLoop } from '../async/turn-of-the-loop.js';
import { jsonSize, LARGE_BYTES } from '../tasks/json-size.js';
import { largeEventOf } from '../tasks/task-event.js';
import { decodeTaskInTurns } from '../tasks/task-event.codec.js';
import { LeasedTaskStore } from '../tasks/leased-task-store.js';
import type { LargeTask, TaskText } from '../tasks/task-store.js';
import { withHistory } from './request-validation.js';
import { currentReader, type StreamReader } from '../transports/flow/response-flow.js';
import type { SharedForm } from '../transports/flow/shared-answer.js';
import { type Made, SharedMaking } from '../transports/flow/shared-making.js';
import { UnsentBytes } from '../transports/flow/unsent-bytes.js';

/** The version and state of a task when it was read. */
type Standing = Pick<TaskText, 'version' | 'state'>;

/**
 * Answers that are too large to be held for each client anew. There is room for them before they are read; the same
 * version of a task is read and serialized once for all who ask for it meanwhile; and one is read after another, since of
 * each there are several copies for a moment. A call from inside the app has no reader, and gets everything as it is.
 */
@Injectable()
export class LargeAnswers {
  private readonly tasksOfStore = new Map<string, SharedMaking<Standing>>();
  private readonly events = new WeakMap<object, Map<string, SharedMaking<undefined>>>();
  private reading: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly unsent: UnsentBytes,
    private readonly tasks: LeasedTaskStore,
  ) {}

  /** A stored task for the reader of this call, or its stand-in, and where it stood when it was read. */
  async stored(
    { taskNo, version, bytes, scope }: LargeTask,
    historyLength?: number,
  ): Promise<Standing & { task: Task }> {
    const reader = currentReader();
    const read = async (): Promise<TaskText> => {
      const text = await this.tasks.readText(taskNo);
      if (!text) throw new TaskNotFoundError(`Task not found: ${scope.taskId}`);
      return text;
    };
    if (!reader?.form) {
      if (reader) await this.hold(reader, bytes);
      const { text, ...standing } = await this.inTurn(read);
      return { ...standing, task: withHistory(await decodeTaskInTurns(text), historyLength) };
    }
    const { form } = reader;
    const key = `${taskNo} ${version} ${historyLength ?? 'all'} ${form.name}`;
    const make = (): Promise<Made<Standing>> =>
      this.inTurn(async () => {
        const { text, ...about } = await read();
        return { about, bytes: await serialized(text, historyLength, form) };
      });
    const { answer, about } = await this.shared(reader, this.tasksOfStore, key, (unused) => {
      return new SharedMaking(this.unsent, bytes, 'task', make, unused);
    });
    return { ...about, task: answer.standIn };
  }

  /** A task that is in memory: as it is, or its stand-in where it is large. */
  async task(task: Task): Promise<Task> {
    const reader = currentReader();
    if (!reader || jsonSize(task, LARGE_BYTES) < LARGE_BYTES) return task;
    const bytes = jsonSize(task);
    const { form } = reader;
    if (!form) {
      await this.hold(reader, bytes);
      return task;
    }
    const make = async () => ({ about: undefined, bytes: await form.task(task) });
    const { answer } = await this.shared(reader, new Map<string, SharedMaking<undefined>>(), '', (unused) => {
      return new SharedMaking(this.unsent, bytes, 'task', make, unused);
    });
    return answer.standIn;
  }

  /** The response for an event as it is, or a stand-in if it is large. */
  async response(response: StreamResponse): Promise<StreamResponse> {
    const large = largeEventOf(response);
    const reader = currentReader();
    if (!large || !reader) return response;
    const { event, bytes } = large;
    const { form } = reader;
    if (!form) {
      await this.hold(reader, bytes);
      return response;
    }
    const forms = this.events.get(event) ?? new Map<string, SharedMaking<undefined>>();
    this.events.set(event, forms);
    const make = () => Promise.resolve({ about: undefined, bytes: form.response(response) });
    const { answer } = await this.shared(reader, forms, form.name, (unused) => {
      return new SharedMaking(this.unsent, bytes, 'response', make, unused);
    });
    return { payload: { $case: 'task', value: answer.standIn } };
  }

  /** Room for an answer of so many bytes that is made for this call alone. */
  async room(bytes: number): Promise<void> {
    const reader = currentReader();
    if (reader) await this.hold(reader, bytes);
  }

  /** The SDK holds its answer twice: as a text, and as bytes on their way. */
  private hold(reader: StreamReader, bytes: number): Promise<void> {
    return whileThere(reader, async (gone) => reader.hold(await this.unsent.reserve(2 * bytes, gone)));
  }

  /** Makes an answer, or waits for whoever makes the same, and prepares it for the reader. */
  private shared<T>(
    reader: StreamReader,
    known: Map<string, SharedMaking<T>>,
    key: string,
    begin: (unused: () => void) => SharedMaking<T>,
  ) {
    return whileThere(reader, async (gone) => {
      let making = known.get(key);
      if (!making) {
        const begun = begin(() => {
          if (known.get(key) === begun) known.delete(key);
        });
        making = begun;
        known.set(key, making);
      }
      const { share, about } = await making.share(gone);
      reader.prepare(share);
      return { answer: share.answer, about };
    });
  }

  private inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.reading.then(work);
    this.reading = done.catch(() => undefined);
    return done;
  }
}

/** The task of a JSON text in the form of a transport. What takes long gives the event loop a turn in between. */
async function serialized(text: string, historyLength: number | undefined, form: SharedForm): Promise<Buffer> {
  if (form.name === 'json' && historyLength === undefined) return Buffer.from(text);
  await turnOfTheLoop();
  const task = withHistory(await decodeTaskInTurns(text), historyLength);
  await turnOfTheLoop();
  return form.task(task);
}

/** Works with a signal that aborts when the reader is gone. */
async function whileThere<T>(reader: StreamReader, work: (gone: AbortSignal) => Promise<T>): Promise<T> {
  const gone = new AbortController();
  const leave = (): void => gone.abort(new Error('The reader is gone.'));
  if (reader.destroyed) leave();
  reader.once('close', leave);
  try {
    return await work(gone.signal);
  } finally {
    reader.off('close', leave);
  }
}
