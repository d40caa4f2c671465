import type { AgentExecutor, ExecutionEventBus } from '@a2a-js/sdk/server';
import type { TurnRequestContext } from '../turn-request-context.js';

/** An SDK {@link AgentExecutor} whose `execute` sees the turn that it runs in. */
export interface TurnExecutor {
  /** Runs one turn. Events published on the bus are stored and streamed in order, each of them once. */
  execute(requestContext: TurnRequestContext, eventBus: ExecutionEventBus): Promise<void>;

  /**
   * The task is being canceled. The turn's signal has aborted before; publish CANCELED here once things are cleaned up,
   * or leave it to the library, which does so itself after `turns.cancelTimeoutMs`.
   */
  cancelTask(taskId: string, eventBus: ExecutionEventBus): Promise<void>;
}

/** Any {@link TurnExecutor} is what the SDK calls an executor. */
export type AnyExecutor = AgentExecutor | TurnExecutor;
