import { randomUUID } from 'node:crypto';
import type { SendMessageRequest } from '@a2a-js/sdk';
import { RequestMalformedError } from '@a2a-js/sdk/errors';
import type { ServerCallContext } from '@a2a-js/sdk/server';
import type { RequestLimits } from '../options/request.options.js';
import { encodeConfig } from '../push/push-config.codec.js';
import { referenceTasks } from '../tasks/reference-tasks.js';
import type { PushReceiver, VersionedTaskStore } from '../tasks/task-store.js';
import { outsideAnswer } from '../transports/flow/response-flow.js';
import { receiptOf } from '../turns/message-fingerprint.js';
import type { MessageTurns } from '../turns/message-turns.js';
import { repetitionOf, type TurnProgress } from '../turns/turn-outcome.js';
import type { AgentCards } from './agent-cards.js';
import type { CallersTasks } from './callers-tasks.js';
import type { PushReceivers } from './push-receivers.js';
import { requireExtensions, requireInputModes, requireMessage } from './request-validation.js';

/** What a message is checked for. */
export interface MessageOptions {
  /** Whether the parts of a message must be of the media types that the agent's card names. */
  validateInputModes: boolean;
  /** For how long a repetition of a message is recognised, in ms. */
  messageIdWindowMs: number;
  limits: RequestLimits;
}

/** Checks messages, and starts their turns. */
export class IncomingMessages {
  constructor(
    private readonly cards: AgentCards,
    private readonly callers: CallersTasks,
    private readonly tasks: VersionedTaskStore,
    private readonly turns: MessageTurns,
    private readonly push: PushReceivers,
    private readonly options: MessageOptions,
  ) {}

  /** Throws the protocol's error where the message is refused before a turn begins. */
  async begin(params: SendMessageRequest, context: ServerCallContext): Promise<TurnProgress> {
    const { limits, validateInputModes, messageIdWindowMs } = this.options;
    const message = requireMessage(params, limits);
    const { offered } = this.cards;
    if (validateInputModes) requireInputModes(offered, message);
    requireExtensions(offered, context);
    const scope = this.callers.scope(context, message.taskId || randomUUID());
    const receipt = receiptOf(message, messageIdWindowMs);
    if (receipt && !message.taskId) {
      // Looked up before the executor runs; the first commit holds the promise where two copies run at once. A
      // follow-up's repetition is found when it is admitted.
      const taskNo = await this.tasks.findRepeated(scope, receipt);
      if (taskNo !== undefined) return repetitionOf(taskNo);
    }
    const task = message.taskId ? (await this.callers.require(message.taskId, context)).task : undefined;
    const contextId = task?.contextId ?? (message.contextId || randomUUID());
    const { maxReferenceBytes } = limits;
    const references = await referenceTasks(
      this.tasks,
      message.referenceTaskIds,
      (id) => this.callers.scope(context, id),
      {
        maxBytes: maxReferenceBytes,
        tooLarge: (id) => {
          throw new RequestMalformedError(
            `The tasks that message.referenceTaskIds names hold more than ${maxReferenceBytes} bytes, up to ${id}.`,
          );
        },
      },
    );
    // What the client claims to be its context is compared under the task's lock; the executor gets the true one.
    const request = {
      ...params,
      message: { ...message, taskId: scope.taskId, contextId: message.contextId || contextId },
    };
    const push = this.receiverOf(params, scope.taskId, context);
    const turn = outsideAnswer(() =>
      this.turns.start({
        scope,
        contextId,
        callContext: context,
        request,
        receipt,
        push,
        task,
        referenceTasks: references,
      }),
    );
    if (push) void this.tellRegistered(turn);
    return turn;
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

  /** The receiver was stored with the message. */
  private async tellRegistered(turn: TurnProgress): Promise<void> {
    const { kind } = await turn.opened;
    if (kind === 'task' || kind === 'message') this.push.registered();
  }
}
