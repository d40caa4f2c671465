import { randomUUID } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import type { SendMessageRequest } from '@a2a-js/sdk';
import { RequestMalformedError } from '@a2a-js/sdk/errors';
import type { ServerCallContext } from '@a2a-js/sdk/server';
import { encodeConfig } from '../push/push-config.codec.js';
import { referenceTasks } from '../tasks/reference-tasks.js';
import { LeasedTaskStore } from '../tasks/leased-task-store.js';
import type { PushReceiver } from '../tasks/task-store.js';
import { outsideAnswer, readerGone } from '../transports/flow/response-flow.js';
import { receiptOf } from '../turns/message-fingerprint.js';
import { MessageTurns } from '../turns/message-turns.js';
import { repetitionOf, type TurnProgress } from '../turns/turn-outcome.js';
import { AgentCards } from './agent-cards.js';
import { CallersTasks } from './callers-tasks.js';
import { PushReceivers } from './push-receivers.js';
import { requireExtensions, requireInputModes, requireMessage } from './request-validation.js';
import { ResolvedOptions } from '../options/cluster.options.js';

/** Checks messages, and starts their turns. */
@Injectable()
export class IncomingMessages {
  constructor(
    private readonly cards: AgentCards,
    private readonly callers: CallersTasks,
    private readonly tasks: LeasedTaskStore,
    private readonly turns: MessageTurns,
    private readonly push: PushReceivers,
    private readonly options: ResolvedOptions,
  ) {}

  /** Throws the protocol's error where the message is refused before a turn begins. */
  async begin(params: SendMessageRequest, context: ServerCallContext): Promise<TurnProgress> {
    const { requests: limits, validateInputModes, turns } = this.options;
    const message = requireMessage(params, limits);
    const { offered } = this.cards;
    if (validateInputModes) requireInputModes(offered, message);
    requireExtensions(offered, context);
    const scope = this.callers.scope(context, message.taskId || randomUUID());
    const receipt = receiptOf(message, turns.messageIdWindowMs);
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
    // The client's contextId is compared under the task's lock. The executor gets the true one.
    const request = {
      ...params,
      message: { ...message, taskId: scope.taskId, contextId: message.contextId || contextId },
    };
    const push = this.receiverOf(params, scope.taskId, context);
    const gone = task && readerGone();
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
        gone,
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
