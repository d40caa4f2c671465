import { Injectable } from '@nestjs/common';
import type { ServerCallContext } from '@a2a-js/sdk/server';
import { A2AError, UnsupportedOperationError } from '@a2a-js/sdk/errors';
import { GuardsConsumer, InterceptorsConsumer } from '@nestjs/core/internal';
import { ContextIdFactory } from '@nestjs/core';
import { defer, isObservable, lastValueFrom, type Observable } from 'rxjs';
import {
  A2A_CONTEXT_TYPE,
  type ExecutorMethod,
  ExecutorProvider,
  handlerOf,
  type Invocation,
} from './executor-provider.js';
import { detailOf, messageOf } from '../../errors/described.js';
import type { FencedEventBus } from '../fenced-event-bus.js';
import { runInTurn } from '../current-turn.js';
import type { ExecutorEnding } from '../turn-conclusion.js';
import type { TurnExecution } from '../turn-execution.js';
import { TurnRequestContext } from '../turn-request-context.js';
import { TurnFenceInterceptor } from './turn-fence.interceptor.js';
import { LibraryLogger } from '../../logging/library.logger.js';

/**
 * Runs the executor's methods as Nest handlers: its own guards, interceptors and filters work as on a controller. The
 * pieces are Nest's; they are put together here because the guards have to run before a turn is admitted.
 */
@Injectable()
export class ExecutorInvoker {
  private readonly logger = new LibraryLogger('A2AClusterExecutor');
  private readonly guards = new GuardsConsumer();
  private readonly interceptors = new InterceptorsConsumer();

  constructor(
    private readonly provider: ExecutorProvider,
    private readonly fence: TurnFenceInterceptor,
  ) {}

  /** Finds the executor for a turn; a request-scoped one is made for it. */
  prepare(request: unknown): Promise<Invocation> {
    return this.provider.resolve(ContextIdFactory.create(), request);
  }

  /** Phase 1: the guards. A refusal becomes a protocol error, before anything is stored. */
  async guard({ executor, enhancersOf }: Invocation, method: ExecutorMethod, args: unknown[]): Promise<void> {
    const { guards, filter } = enhancersOf(method);
    let allowed: boolean;
    try {
      allowed = await this.guards.tryActivate(guards, args, executor, handlerOf(executor, method), A2A_CONTEXT_TYPE);
    } catch (error) {
      const refusal = await filter(error, args).then(
        () => error,
        (filtered: unknown) => filtered,
      );
      throw refusal instanceof A2AError ? refusal : refused(messageOf(refusal), refusal);
    }
    if (!allowed) throw refused('a guard said no');
  }

  /**
   * Phase 2: the fence, then the users' interceptors, then `execute`; in a cancel turn, which has only a caller,
   * `cancelTask`. Returns how the executor came back.
   */
  async execute(
    invocation: Invocation,
    request: TurnRequestContext | ServerCallContext,
    bus: FencedEventBus,
  ): Promise<ExecutorEnding> {
    const { executor } = invocation;
    const { turn } = bus;
    if (request instanceof TurnRequestContext) {
      return this.fenced(invocation, 'execute', [request, bus], turn, () => executor.execute(request, bus));
    }
    const args = [turn.taskId, bus, request];
    return this.fenced(invocation, 'cancelTask', args, turn, () => executor.cancelTask(turn.taskId, bus));
  }

  /** Tells the executor of a running turn that it is canceled. Its turn has the fence already. Never rejects. */
  async cancel(invocation: Invocation, context: ServerCallContext, bus: FencedEventBus): Promise<void> {
    const { turn } = bus;
    const { taskId } = turn;
    const args = [taskId, bus, context];
    const inner = this.filtered(invocation, 'cancelTask', args, () => invocation.executor.cancelTask(taskId, bus));
    try {
      await runInTurn(turn.cleanUp, turn.left, () => lastValueFrom(defer(inner), { defaultValue: undefined }));
    } catch (error) {
      this.logger.error(`cancelTask threw for task ${taskId}: ${detailOf(error)}`);
    }
  }

  private async fenced(
    invocation: Invocation,
    method: ExecutorMethod,
    args: unknown[],
    turn: TurnExecution,
    run: () => Promise<void>,
  ): Promise<ExecutorEnding> {
    const { executor } = invocation;
    const settling = async (): Promise<void> => {
      try {
        await run();
      } finally {
        turn.executorSettled();
      }
    };
    const ending = (await this.interceptors.intercept(
      [this.fence],
      args,
      executor,
      handlerOf(executor, method),
      this.filtered(invocation, method, args, settling),
      A2A_CONTEXT_TYPE,
    )) as Observable<ExecutorEnding>;
    return lastValueFrom(ending);
  }

  /** The users' interceptors around the method, and their filters around both. */
  private filtered(
    { executor, enhancersOf }: Invocation,
    method: ExecutorMethod,
    args: unknown[],
    run: () => Promise<void>,
  ): () => Promise<unknown> {
    const { interceptors, filter } = enhancersOf(method);
    return async () => {
      try {
        const result: unknown = await this.interceptors.intercept(
          interceptors,
          args,
          executor,
          handlerOf(executor, method),
          run,
          A2A_CONTEXT_TYPE,
        );
        return isObservable(result) ? await lastValueFrom(result, { defaultValue: undefined }) : result;
      } catch (error) {
        return filter(error, args);
      }
    };
  }
}

function refused(why: string, cause?: unknown): Error {
  return new UnsupportedOperationError({ message: `The agent refuses the request: ${why}.`, cause });
}
