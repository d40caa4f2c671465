import { randomUUID } from 'node:crypto';
import type { StreamResponse, Task } from '@a2a-js/sdk';

/** How a transport writes what is shared: bytes that are the same for all of its clients. */
export interface SharedForm {
  readonly name: string;
  task(task: Task): Promise<Buffer>;
  response(response: StreamResponse): Buffer;
}

/**
 * An answer that is too large to be made for each client anew. It is serialized once, and written by reference to all who get
 * it. To the SDK it is shown as a small task, the stand-in, by whose id the transport finds the place for the true bytes.
 */
export class SharedAnswer {
  /** Only this process knows it, so nothing that a client sends can be taken for it. */
  readonly id = randomUUID();

  constructor(
    readonly bytes: Buffer,
    /** Whether the bytes are a task, or a whole response of a stream. */
    readonly kind: 'task' | 'response',
  ) {}

  /** The stand-in that the SDK gets in place of the task. */
  get standIn(): Task {
    return { id: this.id, contextId: '', status: undefined, artifacts: [], history: [], metadata: undefined };
  }
}

/** One client's part in a shared answer. */
export interface Share {
  readonly answer: SharedAnswer;
  /** It has been written, or never will be; once more does nothing. */
  release(): void;
}
