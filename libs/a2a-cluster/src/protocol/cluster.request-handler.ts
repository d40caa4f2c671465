import { Injectable } from '@nestjs/common';
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
} from '@a2a-js/sdk';
import { A2AError, ExtendedAgentCardNotConfiguredError, UnsupportedOperationError } from '@a2a-js/sdk/errors';
import type { A2ARequestHandler, ServerCallContext } from '@a2a-js/sdk/server';
import { StoreUnavailableError } from '../errors/store-unavailable.error.js';
import { DatabaseClosedError } from '../errors/database-closed.error.js';
import { detailOf, messageOf } from '../errors/described.js';
import { LeaseLostError } from '../errors/lease-lost.error.js';
import { ReplicaDrainingError } from '../errors/replica-draining.error.js';
import { TaskEventStream } from '../streams/task-event-stream.js';
import { jsonSize, LARGE_BYTES } from '../tasks/json-size.js';
import { largeEventOf, toStreamResponses } from '../tasks/task-event.js';
import { isTerminal, stateName } from '../tasks/task-states.js';
import { foundState, type FoundTask, type LargeTask } from '../tasks/task-store.js';
import { AgentCards } from './agent-cards.js';
import { CallersTasks } from './callers-tasks.js';
import { IncomingMessages } from './incoming-messages.js';
import { requireId, withHistory } from './request-validation.js';
import { GRPC_STATUS, GrpcStatusError } from '../errors/grpc-status.error.js';
import { LargeAnswers } from './large-answers.js';
import { currentReader, paced } from '../transports/flow/response-flow.js';
import { PushReceivers } from './push-receivers.js';
import { requireCanceled, TaskCancellation } from './task-cancellation.js';
import { TurnAnswers } from './turn-answers.js';
import { LibraryLogger } from '../logging/library.logger.js';

/** The protocol's operations, answered alike by every replica. */
@Injectable()
export class ClusterRequestHandler implements A2ARequestHandler {
  private readonly logger = new LibraryLogger(ClusterRequestHandler.name);

  constructor(
    private readonly cards: AgentCards,
    private readonly callers: CallersTasks,
    private readonly stream: TaskEventStream,
    private readonly messages: IncomingMessages,
    private readonly answers: TurnAnswers,
    private readonly cancellation: TaskCancellation,
    private readonly push: PushReceivers,
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
      const turn = await this.messages.begin(params, context);
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
      const turn = await this.messages.begin(params, context);
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
      const found = await this.callers.look(params.id, context);
      if ('task' in found) return this.large.task(withHistory(found.task, params.historyLength));
      return (await this.large.stored(found, params.historyLength)).task;
    });
  }

  listTasks(params: ListTasksRequest, context: ServerCallContext): Promise<ListTasksResponse> {
    return this.answer(async () => {
      const response = await this.callers.list(params, context, (bytes) => this.large.room(bytes));
      return { ...response, tasks: response.tasks.map((task) => withHistory(task, params.historyLength)) };
    });
  }

  cancelTask(params: CancelTaskRequest, context: ServerCallContext): Promise<Task> {
    return this.answer(async () => {
      const found = await this.callers.look(params.id, context);
      const state = foundState(found);
      if (isTerminal(state)) {
        requireCanceled(params.id, state);
        return 'task' in found ? found.task : (await this.large.stored(found)).task;
      }
      await this.cancellation.guard(params.id, context);
      const contextId = 'task' in found ? found.task.contextId : found.contextId;
      return this.large.task(
        await this.cancellation.cancel(this.callers.scope(context, params.id), contextId, context),
      );
    });
  }

  resubscribe(params: SubscribeToTaskRequest, context: ServerCallContext): AsyncGenerator<StreamResponse, void> {
    return this.answerStream(async function* (this: ClusterRequestHandler, gone) {
      this.requireStreaming();
      const found = await this.callers.look(params.id, context);
      const state = foundState(found);
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
    return this.callers.look(taskId, context);
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
      currentReader()?.askAnother();
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

const taskResponse = (value: Task): StreamResponse => ({ payload: { $case: 'task', value } });
