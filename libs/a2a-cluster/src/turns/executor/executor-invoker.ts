import { Logger, type NestInterceptor } from '@nestjs/common';
import type { ServerCallContext } from '@a2a-js/sdk/server';
import { A2AError, UnsupportedOperationError } from '@a2a-js/sdk/errors';
import { GuardsConsumer, InterceptorsConsumer } from '@nestjs/core/internal';
import { ContextIdFactory } from '@nestjs/core';
import { defer, isObservable, lastValueFrom, type Observable } from 'rxjs';
import {
  A2A_CONTEXT_TYPE,
  type ExecutorMethod,
  type ExecutorProvider,
  handlerOf,
  type Invocation,
} from './executor-provider.js';
import { detailOf, messageOf } from '../../errors/described.js';
import type { FencedEventBus } from '../fenced-event-bus.js';
import { runInTurn } from '../current-turn.js';
import type { TurnRequestContext } from '../turn-request-context.js';

/**
 * Runs the executor's methods as Nest handlers: its own guards, interceptors and filters work as on a controller. The
 * pieces are Nest's; they are put together here because the guards have to run before a turn is admitted.
 */
export class ExecutorInvoker {
  private readonly logger = new Logger('A2AClusterExecutor');
  private readonly guards = new GuardsConsumer();
  private readonly interceptors = new InterceptorsConsumer();

  constructor(
    private readonly provider: ExecutorProvider,
    private readonly fence: NestInterceptor,
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

  /** Phase 2: the fence, then the users' interceptors, then `execute`. */
  async execute(invocation: Invocation, request: TurnRequestContext, bus: FencedEventBus): Promise<void> {
    await this.fenced(invocation, 'execute', [request, bus], bus, () => invocation.executor.execute(request, bus));
  }

  /** A cancel turn: the same, around `cancelTask`. */
  async executeCancel(invocation: Invocation, context: ServerCallContext, bus: FencedEventBus): Promise<void> {
    const { taskId } = bus.execution;
    const args = [taskId, bus, context];
    await this.fenced(invocation, 'cancelTask', args, bus, () => invocation.executor.cancelTask(taskId, bus));
  }

  /** Tells the executor of a running turn that it is canceled. Its turn has the fence already. */
  async cancel(invocation: Invocation, context: ServerCallContext, bus: FencedEventBus): Promise<void> {
    const { execution } = bus;
    const { taskId } = execution;
    const args = [taskId, bus, context];
    const inner = this.filtered(invocation, 'cancelTask', args, () => invocation.executor.cancelTask(taskId, bus));
    try {
      await runInTurn(execution.cleanUp, execution.over, () =>
        lastValueFrom(defer(inner), { defaultValue: undefined }),
      );
    } catch (error) {
      this.logger.error(`cancelTask threw for task ${taskId}: ${detailOf(error)}`);
    }
  }

  private async fenced(
    invocation: Invocation,
    method: ExecutorMethod,
    args: unknown[],
    bus: FencedEventBus,
    run: () => Promise<void>,
  ): Promise<void> {
    const { executor } = invocation;
    const settling = async (): Promise<void> => {
      try {
        await run();
      } finally {
        bus.execution.settled.resolve();
      }
    };
    const inner = this.filtered(invocation, method, args, settling);
    const result = (await this.interceptors.intercept(
      [this.fence],
      args,
      executor,
      handlerOf(executor, method),
      inner,
      A2A_CONTEXT_TYPE,
    )) as Observable<void>;
    await lastValueFrom(result, { defaultValue: undefined });
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
