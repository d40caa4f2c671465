import {
  ListTasksRequest,
  Message,
  type SendMessageRequest,
  StreamResponse,
  Task,
  type TaskPushNotificationConfig,
  taskStateToJSON,
} from '@a2a-js/sdk';
import type { Client } from '@a2a-js/sdk/client';
import { A2AError } from '@a2a-js/sdk/errors';
import type { Recorder } from '../recorder.js';
import type { Json, Operation, RequestLine } from '../recording.js';

/** Which replica is spoken to, how, and as whom. */
export interface Where {
  readonly replica: string;
  readonly transport: 'JSONRPC' | 'HTTP+JSON';
  readonly user: string;
}

/** What came of a call: nothing is known of what was asked for when it broke. */
export type Outcome<T> =
  | { readonly how: 'answered'; readonly value: T }
  | { readonly how: 'refused'; readonly error: string }
  | { readonly how: 'broken' | 'hungUp' };

/** Longer than anything a replica promises: what has no answer then hangs. */
const CALL_MS = 30_000;

export interface SendRequest {
  readonly message: Message;
  readonly push?: TaskPushNotificationConfig | undefined;
  /** Answered as soon as the message is durable. */
  readonly immediately?: boolean;
}

/** What a reader of a stream may do after each event, such as not to read on for a while. */
export type OnEvent = (event: Json) => Promise<void> | void;

/** The SDK's client at one replica; all that it asks and hears is written down. */
export class RecordedClient {
  constructor(
    private readonly client: Client,
    readonly where: Where,
    private readonly recorder: Recorder,
  ) {}

  async send(request: SendRequest): Promise<Outcome<Task | Message>> {
    const call = this.ask('send', aboutMessage(request));
    const outcome = await this.settle(call, (signal) => this.client.sendMessage(paramsOf(request), { signal }));
    if (outcome.how !== 'answered') return outcome;
    const { value } = outcome;
    if ('messageId' in value) this.recorder.write({ kind: 'answer', call, message: Message.toJSON(value) as Json });
    else this.recorder.write({ kind: 'answer', call, task: Task.toJSON(value) as Json });
    return outcome;
  }

  stream(request: SendRequest, onEvent?: OnEvent, hangUp?: AbortSignal): Promise<Outcome<Json[]>> {
    const call = this.ask('stream', aboutMessage(request));
    return this.read(call, (signal) => this.client.sendMessageStream(paramsOf(request), { signal }), onEvent, hangUp);
  }

  subscribe(taskId: string, onEvent?: OnEvent, hangUp?: AbortSignal): Promise<Outcome<Json[]>> {
    const call = this.ask('subscribe', { taskId });
    const open = (signal: AbortSignal) => this.client.resubscribeTask({ tenant: '', id: taskId }, { signal });
    return this.read(call, open, onEvent, hangUp);
  }

  get(taskId: string): Promise<Outcome<Task>> {
    return this.task('get', taskId, (signal) => this.client.getTask({ tenant: '', id: taskId }, { signal }));
  }

  cancel(taskId: string): Promise<Outcome<Task>> {
    const params = { tenant: '', id: taskId, metadata: undefined };
    return this.task('cancel', taskId, (signal) => this.client.cancelTask(params, { signal }));
  }

  async setPush(config: TaskPushNotificationConfig): Promise<Outcome<unknown>> {
    const call = this.ask('pushConfig', { taskId: config.taskId, configId: config.id });
    const create = (signal: AbortSignal) => this.client.createTaskPushNotificationConfig(config, { signal });
    const outcome = await this.settle(call, create);
    if (outcome.how === 'answered') this.recorder.write({ kind: 'answer', call });
    return outcome;
  }

  async list(): Promise<void> {
    const call = this.ask('list', {});
    const params = ListTasksRequest.fromJSON({ pageSize: 20 });
    const outcome = await this.settle(call, (signal) => this.client.listTasks(params, { signal }));
    if (outcome.how !== 'answered') return;
    const listed = outcome.value.tasks.map(({ id, status }) => ({
      taskId: id,
      state: status ? taskStateToJSON(status.state) : '',
    }));
    this.recorder.write({ kind: 'answer', call, listed });
  }

  private async task(
    operation: Operation,
    taskId: string,
    ask: (signal: AbortSignal) => Promise<Task>,
  ): Promise<Outcome<Task>> {
    const call = this.ask(operation, { taskId });
    const outcome = await this.settle(call, ask);
    if (outcome.how === 'answered') {
      this.recorder.write({ kind: 'answer', call, task: Task.toJSON(outcome.value) as Json });
    }
    return outcome;
  }

  private ask(operation: Operation, about: Pick<RequestLine, 'taskId' | 'messageId' | 'text' | 'configId'>): number {
    const call = this.recorder.nextCall();
    this.recorder.write({ kind: 'request', call, operation, ...this.where, ...about });
    return call;
  }

  private async settle<T>(call: number, ask: (signal: AbortSignal) => Promise<T>): Promise<Outcome<T>> {
    const signal = AbortSignal.timeout(CALL_MS);
    try {
      return { how: 'answered', value: await ask(signal) };
    } catch (error) {
      return this.fail(call, error, signal.aborted);
    }
  }

  private async read(
    call: number,
    open: (signal: AbortSignal) => AsyncIterable<StreamResponse>,
    onEvent: OnEvent | undefined,
    hangUp: AbortSignal | undefined,
  ): Promise<Outcome<Json[]>> {
    const signal = AbortSignal.any([AbortSignal.timeout(2 * CALL_MS), ...(hangUp ? [hangUp] : [])]);
    const events: Json[] = [];
    try {
      for await (const response of open(signal)) {
        const event = StreamResponse.toJSON(response) as Json;
        this.recorder.write({ kind: 'event', call, event });
        events.push(event);
        await onEvent?.(event);
      }
    } catch (error) {
      return this.fail(call, error, signal.aborted);
    }
    this.recorder.write({ kind: 'end', call, how: 'finished' });
    return { how: 'answered', value: events };
  }

  private fail(call: number, error: unknown, hungUp: boolean): Exclude<Outcome<never>, { how: 'answered' }> {
    const refusal = hungUp ? undefined : refusalOf(error);
    const how = hungUp ? 'hungUp' : refusal === undefined ? 'broken' : 'refused';
    const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    this.recorder.write({ kind: 'end', call, how, error: refusal ?? text });
    return refusal === undefined ? { how: hungUp ? 'hungUp' : 'broken' } : { how: 'refused', error: refusal };
  }
}

/** What a request is refused with for good: anything else, such as that a replica is shutting down, may pass. */
const REFUSALS = [
  'TaskNotFoundError',
  'TaskNotCancelableError',
  'UnsupportedOperationError',
  'RequestMalformedError',
  'PushNotificationNotSupportedError',
  'ContentTypeNotSupportedError',
];

/** The refusal behind a failure. On a JSON-RPC stream the SDK wraps it, as the cause of another error. */
function refusalOf(error: unknown): string | undefined {
  for (let it: unknown = error; it instanceof Error; it = it.cause) {
    if (it instanceof A2AError && REFUSALS.includes(it.name)) return `${it.name}: ${it.message}`;
  }
  return undefined;
}

function aboutMessage({ message, push }: SendRequest): Pick<RequestLine, 'taskId' | 'messageId' | 'text' | 'configId'> {
  const [part] = message.parts;
  return {
    ...(message.taskId && { taskId: message.taskId }),
    messageId: message.messageId,
    ...(part?.content?.$case === 'text' && { text: part.content.value }),
    ...(push && { configId: push.id }),
  };
}

function paramsOf({ message, push, immediately = false }: SendRequest): SendMessageRequest {
  return {
    tenant: '',
    message,
    configuration: {
      acceptedOutputModes: [],
      taskPushNotificationConfig: push,
      returnImmediately: immediately,
    },
    metadata: undefined,
  };
}
