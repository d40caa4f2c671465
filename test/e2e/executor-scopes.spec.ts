import type { ExecutionEventBus } from '@a2a-js/sdk/server';
import {
  type CanActivate,
  type ExecutionContext,
  Inject,
  Injectable,
  Module,
  type Provider,
  Scope,
  UseGuards,
} from '@nestjs/common';
import { REQUEST } from '@nestjs/core';
import { type TurnExecutor, TurnRequestContext } from 'nestjs-a2a-cluster';
import { cancel, errorName, send } from '../../tools/harness/client.js';
import { Recording, stateName } from '../helpers/recording.js';
import { AgentAppFixture } from './agent-app.fixture.js';
import { completed, inputRequired, textOf, working } from './agent-events.js';

const fixture = new AgentAppFixture();

/** Which instances did what, of the executor and of its dependency. */
const log: { did: string; executor: object; dependency: object; request: unknown }[] = [];
beforeEach(() => log.splice(0));

@Injectable({ scope: Scope.REQUEST })
class PerTurn {
  constructor(@Inject(REQUEST) readonly request: unknown) {}
}

@Module({ providers: [PerTurn], exports: [PerTurn] })
class PerTurnModule {}

class LoggingAgent implements TurnExecutor {
  constructor(readonly dependency: PerTurn) {}

  async execute(context: TurnRequestContext, bus: ExecutionEventBus): Promise<void> {
    this.log('execute');
    const { signal } = context.turn;
    switch (textOf(context.userMessage)) {
      case 'ask':
        return inputRequired(bus, context);
      case 'work':
        working(bus, context);
        return new Promise((resolve) => signal.addEventListener('abort', () => resolve()));
      default:
        return completed(bus, context);
    }
  }

  cancelTask(): Promise<void> {
    this.log('cancelTask');
    return Promise.resolve();
  }

  private log(did: string): void {
    const { dependency } = this;
    log.push({ did, executor: this, dependency, request: dependency.request });
  }
}

/** Request-scoped because it says so, and because its dependency is. */
@Injectable({ scope: Scope.REQUEST })
class ScopedAgent extends LoggingAgent {
  constructor(dependency: PerTurn) {
    super(dependency);
  }
}

@Injectable()
class BubbledAgent extends LoggingAgent {
  constructor(dependency: PerTurn) {
    super(dependency);
  }
}

const tokenProvider: Provider = { provide: 'AGENT', useClass: ScopedAgent };

@Module({ imports: [PerTurnModule], providers: [tokenProvider], exports: ['AGENT'] })
class AgentModule {}

const forms = [
  ['a request-scoped class', { executor: ScopedAgent, imports: [PerTurnModule] }],
  ['a class with a request-scoped dependency', { executor: BubbledAgent, imports: [PerTurnModule] }],
  ['a request-scoped provider of an imported module', { executor: 'AGENT', imports: [AgentModule] }],
] as const;

describe.each(forms)('The executor is %s', (_form, cluster) => {
  test('each turn has its own instance, with dependencies of its own that see the turn', async () => {
    const app = await fixture.start({ cluster: { ...cluster, imports: [...cluster.imports] } });
    const client = await app.client();
    const { id: taskId } = await send(client, 'ask');
    await send(client, 'end', { taskId });
    expect(log.map(({ did }) => did)).toEqual(['execute', 'execute']);
    expect(new Set(log.map(({ executor }) => executor)).size).toBe(2);
    expect(new Set(log.map(({ dependency }) => dependency)).size).toBe(2);
    for (const { request } of log) {
      expect(request).toBeInstanceOf(TurnRequestContext);
      expect((request as TurnRequestContext).taskId).toBe(taskId);
    }
  });

  test('cancelTask of a running turn gets the instance that runs it', async () => {
    const app = await fixture.start({ cluster: { ...cluster, imports: [...cluster.imports] } });
    const client = await app.client();
    const sender = Recording.send(client, 'work');
    const { id } = await sender.task();
    expect(stateName(await cancel(client, id))).toBe('CANCELED');
    expect(log.map(({ did }) => did)).toEqual(['execute', 'cancelTask']);
    expect(log[1]?.executor).toBe(log[0]?.executor);
    expect(log[1]?.dependency).toBe(log[0]?.dependency);
    await sender.finished();
  });

  test('two turns at once do not share an instance', async () => {
    const app = await fixture.start({ cluster: { ...cluster, imports: [...cluster.imports] } });
    const client = await app.client();
    const senders = [Recording.send(client, 'work'), Recording.send(client, 'work')];
    for (const sender of senders) await cancel(client, (await sender.task()).id);
    const ran = log.filter(({ did }) => did === 'execute').map(({ executor }) => executor);
    expect(new Set(ran).size).toBe(2);
    await Promise.all(senders.map((sender) => sender.finished()));
  });
});

test('a request-scoped guard on a static executor is made for each turn and works', async () => {
  const guards: object[] = [];
  @Injectable({ scope: Scope.REQUEST })
  class TurnGuard implements CanActivate {
    constructor(@Inject(REQUEST) private readonly request: unknown) {}

    canActivate(context: ExecutionContext): boolean {
      guards.push(this);
      expect(this.request).toBe(context.getArgByIndex(0));
      return textOf((this.request as TurnRequestContext).userMessage) !== 'no';
    }
  }
  @UseGuards(TurnGuard)
  @Injectable()
  class GuardedAgent implements TurnExecutor {
    execute(context: TurnRequestContext, bus: ExecutionEventBus): Promise<void> {
      completed(bus, context);
      return Promise.resolve();
    }

    cancelTask(): Promise<void> {
      return Promise.resolve();
    }
  }
  const app = await fixture.start({ cluster: { executor: GuardedAgent } });
  const client = await app.client();
  expect(stateName(await send(client, 'yes'))).toBe('COMPLETED');
  expect(await errorName(send(client, 'no'))).toBe('UnsupportedOperationError');
  expect(new Set(guards).size).toBe(2);
});
