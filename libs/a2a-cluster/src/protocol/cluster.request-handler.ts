import { randomUUID } from 'node:crypto';
import { Logger } from '@nestjs/common';
import type {
  AgentCard,
  CancelTaskRequest,
  DeleteTaskPushNotificationConfigRequest,
  GetExtendedAgentCardRequest,
  GetTaskPushNotificationConfigRequest,
  GetTaskRequest,
  ListTaskPushNotificationConfigsRequest,
  ListTaskPushNotificationConfigsResponse,
  ListTasksRequest,
  ListTasksResponse,
  Message,
  SendMessageRequest,
  StreamResponse,
  SubscribeToTaskRequest,
  Task,
  TaskPushNotificationConfig,
  TaskState,
} from '@a2a-js/sdk';
import {
  A2AError,
  ExtendedAgentCardNotConfiguredError,
  RequestMalformedError,
  TaskNotFoundError,
  UnsupportedOperationError,
} from '@a2a-js/sdk/errors';
import type { A2ARequestHandler, ServerCallContext } from '@a2a-js/sdk/server';
import { StoreUnavailableError } from '../errors/store-unavailable.error.js';
import { DatabaseClosedError } from '../errors/database-closed.error.js';
import { detailOf, messageOf } from '../errors/described.js';
import { LeaseLostError } from '../errors/lease-lost.error.js';
import { encodeConfig } from '../push/push-config.codec.js';
import { ReplicaDrainingError } from '../errors/replica-draining.error.js';
import type { TaskEventStream } from '../streams/task-event-stream.js';
import { referenceTasks } from '../tasks/reference-tasks.js';
import { jsonSize, LARGE_BYTES } from '../tasks/json-size.js';
import { largeEventOf, toStreamResponses } from '../tasks/task-event.js';
import type { ScopeResolver } from '../tasks/task-scope.js';
import { isTerminal, stateName } from '../tasks/task-states.js';
import type {
  FoundTask,
  LargeTask,
  PushReceiver,
  StoredTask,
  TaskScope,
  VersionedTaskStore,
} from '../tasks/task-store.js';
import type { TurnExecution } from '../turns/turn-execution.js';
import { receiptOf } from '../turns/message-fingerprint.js';
import type { TurnRunner } from '../turns/turn-runner.js';
import type { AgentCards } from './agent-cards.js';
import type { RequestLimits } from '../options/request.options.js';
import {
  checkListTasks,
  checkScope,
  requireExtensions,
  requireId,
  requireInputModes,
  requireMessage,
  withHistory,
} from './request-validation.js';
import { GRPC_STATUS, GrpcStatusError } from '../errors/grpc-status.error.js';
import type { LargeAnswers } from './large-answers.js';
import { outsideAnswer, paced } from '../transports/flow/response-flow.js';
import type { PushReceivers } from './push-receivers.js';
import { requireCanceled, type TaskCancellation } from './task-cancellation.js';
import type { Repetition, TurnAnswers } from './turn-answers.js';

/** The protocol's operations, answered alike by every replica. */
export class ClusterRequestHandler implements A2ARequestHandler {
  private readonly logger = new Logger(ClusterRequestHandler.name);

  constructor(
    private readonly cards: AgentCards,
    private readonly tasks: VersionedTaskStore,
    private readonly stream: TaskEventStream,
    private readonly runner: TurnRunner,
    private readonly answers: TurnAnswers,
    private readonly cancellation: TaskCancellation,
    private readonly scopeOf: ScopeResolver,
    private readonly validateInputModes: boolean,
    private readonly messageIdWindowMs: number,
    private readonly push: PushReceivers,
    private readonly limits: RequestLimits,
    private readonly large: LargeAnswers,
  ) {}

  getAgentCard(): Promise<AgentCard> {
    return this.answer(() => this.cards.card());
  }

  getAuthenticatedExtendedAgentCard(
    _params: GetExtendedAgentCardRequest,
    context: ServerCallContext,
  ): Promise<AgentCard> {
    return this.answer(async () => {
      if (!this.cards.offered.capabilities?.extendedAgentCard)
        throw new UnsupportedOperationError('The agent has no extended card.');
      const card = await this.cards.extendedCard(context);
      if (!card) throw new ExtendedAgentCardNotConfiguredError();
      return card;
    });
  }

  sendMessage(params: SendMessageRequest, context: ServerCallContext): Promise<Message | Task> {
    return this.answer(async () => {
      const turn = await this.begin(params, context);
      const { configuration } = params;
      const result = await (configuration?.returnImmediately ? this.answers.first(turn) : this.answers.final(turn));
      if ('bytes' in result) return (await this.large.stored(result, configuration?.historyLength)).task;
      if (!('messageId' in result)) return this.large.task(withHistory(result, configuration?.historyLength));
      const size = jsonSize(result, LARGE_BYTES);
      if (size >= LARGE_BYTES) await this.large.room(jsonSize(result));
      return result;
    });
  }

  sendMessageStream(params: SendMessageRequest, context: ServerCallContext): AsyncGenerator<StreamResponse, void> {
    return this.answerStream(async function* (this: ClusterRequestHandler, gone) {
      this.requireStreaming();
      const turn = await this.begin(params, context);
      const historyLength = params.configuration?.historyLength;
      const read = (large: LargeTask) => this.large.stored(large, historyLength);
      for await (const batch of this.answers.streamed(turn, gone, read)) {
        const { payload } = batch[0] ?? {};
        if (payload?.$case !== 'task') {
          yield batch;
          continue;
        }
        yield [taskResponse(await this.large.task(withHistory(payload.value, historyLength)))];
        if (batch.length > 1) yield batch.slice(1);
      }
    });
  }

  getTask(params: GetTaskRequest, context: ServerCallContext): Promise<Task> {
    return this.answer(async () => {
      const found = await this.look(params.id, context);
      if ('task' in found) return this.large.task(withHistory(found.task, params.historyLength));
      return (await this.large.stored(found, params.historyLength)).task;
    });
  }

  listTasks(params: ListTasksRequest, context: ServerCallContext): Promise<ListTasksResponse> {
    return this.answer(async () => {
      checkListTasks(params);
      this.scope(context, '');
      const response = await this.tasks.list(params, context, (bytes) => this.large.room(bytes));
      return { ...response, tasks: response.tasks.map((task) => withHistory(task, params.historyLength)) };
    });
  }

  cancelTask(params: CancelTaskRequest, context: ServerCallContext): Promise<Task> {
    return this.answer(async () => {
      const found = await this.look(params.id, context);
      const state = stateOf(found);
      if (isTerminal(state)) {
        requireCanceled(params.id, state);
        return 'task' in found ? found.task : (await this.large.stored(found)).task;
      }
      await this.runner.guardCancel(params.id, context);
      const contextId = 'task' in found ? found.task.contextId : found.contextId;
      return this.large.task(await this.cancellation.cancel(this.scope(context, params.id), contextId, context));
    });
  }

  resubscribe(params: SubscribeToTaskRequest, context: ServerCallContext): AsyncGenerator<StreamResponse, void> {
    return this.answerStream(async function* (this: ClusterRequestHandler, gone) {
      this.requireStreaming();
      const found = await this.look(params.id, context);
      const state = stateOf(found);
      if (isTerminal(state)) {
        throw new UnsupportedOperationError(
          `Task ${params.id} has ended as ${stateName(state)}: there is nothing to follow.`,
        );
      }
      const first = 'task' in found ? { ...found, state } : await this.large.stored(found);
      yield [taskResponse(first.task)];
      // A large one is read after it was looked at, and may have ended in between.
      if (isTerminal(first.state)) return;
      for await (const batch of this.stream.batches(found.taskNo, first.version, gone)) yield toStreamResponses(batch);
    });
  }

  createTaskPushNotificationConfig(
    params: TaskPushNotificationConfig,
    context: ServerCallContext,
  ): Promise<TaskPushNotificationConfig> {
    return this.answer(async () => {
      const { taskNo } = await this.requireForPush(params.taskId, context);
      return this.push.create(taskNo, this.push.registration(params, params.taskId, context));
    });
  }

  getTaskPushNotificationConfig(
    params: GetTaskPushNotificationConfigRequest,
    context: ServerCallContext,
  ): Promise<TaskPushNotificationConfig> {
    return this.answer(async () => {
      const { taskNo } = await this.requireForPush(params.taskId, context);
      return this.push.get(taskNo, params.taskId, params.id);
    });
  }

  listTaskPushNotificationConfigs(
    params: ListTaskPushNotificationConfigsRequest,
    context: ServerCallContext,
  ): Promise<ListTaskPushNotificationConfigsResponse> {
    return this.answer(async () => {
      const { taskNo } = await this.requireForPush(params.taskId, context);
      return this.push.list(taskNo, params);
    });
  }

  deleteTaskPushNotificationConfig(
    params: DeleteTaskPushNotificationConfigRequest,
    context: ServerCallContext,
  ): Promise<void> {
    return this.answer(async () => {
      const { taskNo } = await this.requireForPush(params.taskId, context);
      await this.push.delete(taskNo, requireId('The push notification config id', params.id));
    });
  }

  private async requireForPush(taskId: string, context: ServerCallContext): Promise<FoundTask | LargeTask> {
    this.push.requireSupport();
    return this.look(taskId, context);
  }

  /** Checks a message and starts its turn. */
  private async begin(params: SendMessageRequest, context: ServerCallContext): Promise<TurnExecution | Repetition> {
    const message = requireMessage(params, this.limits);
    const { offered } = this.cards;
    if (this.validateInputModes) requireInputModes(offered, message);
    requireExtensions(offered, context);
    const scope = this.scope(context, message.taskId || randomUUID());
    const receipt = receiptOf(message, this.messageIdWindowMs);
    if (receipt && !message.taskId) {
      // Looked up before the executor runs; the first commit holds the promise where two copies run at once. A
      // follow-up's repetition is found when it is admitted.
      const repeats = await this.tasks.findRepeated(scope, receipt);
      if (repeats !== undefined) return { repeats };
    }
    const task = message.taskId ? (await this.require(message.taskId, context)).task : undefined;
    const contextId = task?.contextId ?? (message.contextId || randomUUID());
    const { maxReferenceBytes } = this.limits;
    const references = await referenceTasks(this.tasks, message.referenceTaskIds, (id) => this.scope(context, id), {
      maxBytes: maxReferenceBytes,
      tooLarge: (id) => {
        throw new RequestMalformedError(
          `The tasks that message.referenceTaskIds names hold more than ${maxReferenceBytes} bytes, up to ${id}.`,
        );
      },
    });
    // What the client claims to be its context is compared under the task's lock; the executor gets the true one.
    const request = {
      ...params,
      message: { ...message, taskId: scope.taskId, contextId: message.contextId || contextId },
    };
    const push = this.receiverOf(params, scope.taskId, context);
    const turn = { scope, contextId, callContext: context, request, receipt, push, task, referenceTasks: references };
    const execution = outsideAnswer(() => this.runner.start(turn));
    if (push) void execution.opened.promise.then(() => this.push.registered()).catch(() => undefined);
    return execution;
  }

  /** The push receiver that a message brings with it. */
  private receiverOf(
    { configuration }: SendMessageRequest,
    taskId: string,
    context: ServerCallContext,
  ): PushReceiver | undefined {
    const given = configuration?.taskPushNotificationConfig;
    if (!given) return undefined;
    this.push.requireSupport();
    const { config, wireVersion } = this.push.registration(given, taskId, context);
    return { configId: config.id, config: encodeConfig(config), wireVersion };
  }

  /** As `require`, but what a large task holds is left out. */
  private async look(taskId: string, context: ServerCallContext): Promise<FoundTask | LargeTask> {
    const found = await this.tasks.findUpTo(this.scope(context, requireId('Task id', taskId)), LARGE_BYTES);
    if (!found) throw new TaskNotFoundError(`Task not found: ${taskId}`);
    return found;
  }

  private async require(taskId: string, context: ServerCallContext): Promise<StoredTask> {
    const stored = await this.tasks.find(this.scope(context, requireId('Task id', taskId)));
    if (!stored) throw new TaskNotFoundError(`Task not found: ${taskId}`);
    return stored;
  }

  private scope(context: ServerCallContext, taskId: string): TaskScope {
    const scope = this.scopeOf(context, taskId);
    checkScope(scope.tenant, scope.owner);
    return scope;
  }

  private requireStreaming(): void {
    if (!this.cards.offered.capabilities?.streaming) throw new UnsupportedOperationError('The agent does not stream.');
  }

  private async answer<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw this.publicError(error);
    }
  }

  private answerStream(
    work: (this: ClusterRequestHandler, gone: AbortSignal) => AsyncGenerator<StreamResponse[], void>,
  ): AsyncGenerator<StreamResponse, void> {
    return paced((gone) => this.answerBatches(work.call(this, gone)), this.stream.closed);
  }

  private async *answerBatches(
    batches: AsyncGenerator<StreamResponse[], void>,
  ): AsyncGenerator<StreamResponse[], void> {
    try {
      for await (const batch of batches) {
        if (!batch.some(largeEventOf)) {
          yield batch;
          continue;
        }
        // Each by itself: there is room for one of them at a time.
        for (const response of batch) yield [await this.large.response(response)];
      }
    } catch (error) {
      throw this.publicError(error);
    }
  }

  /** Clients see the protocol's errors; what else goes wrong is ours to read. */
  private publicError(error: unknown): A2AError {
    if (error instanceof A2AError) return error;
    if (error instanceof ReplicaDrainingError || error instanceof DatabaseClosedError) {
      return new GrpcStatusError(GRPC_STATUS.UNAVAILABLE, error.message, { cause: error });
    }
    // An event that could not be stored in time has what kept it from that as its cause.
    if ((error instanceof LeaseLostError ? error.cause : error) instanceof StoreUnavailableError) {
      this.logger.warn(`A call could not reach the database: ${messageOf(error)}`);
      return new GrpcStatusError(
        GRPC_STATUS.UNAVAILABLE,
        'The agent cannot reach its database at the moment; try again.',
        { cause: error },
      );
    }
    this.logger.error(detailOf(error));
    return new A2AError({ message: 'Internal error; the agent has logged it.', cause: error });
  }
}

const stateOf = (found: FoundTask | LargeTask): TaskState =>
  'task' in found ? (found.task.status?.state ?? 0) : found.state;

const taskResponse = (value: Task): StreamResponse => ({ payload: { $case: 'task', value } });
