import {
  ArgumentsHost,
  type CanActivate,
  Catch,
  type ExceptionFilter,
  ExecutionContext,
  type INestApplication,
  type NestInterceptor,
  type Provider,
} from '@nestjs/common';
import { APP_FILTER, APP_GUARD, APP_INTERCEPTOR } from '@nestjs/core';
import { errorName, send } from '../../tools/harness/client.js';
import { stateName } from '../helpers/recording.js';
import { AgentAppFixture } from './agent-app.fixture.js';
import { completed, textOf } from './agent-events.js';

const fixture = new AgentAppFixture();

/** Context types that each global enhancer has seen. */
const seen: Record<'guard' | 'interceptor' | 'filter', string[]> = { guard: [], interceptor: [], filter: [] };
beforeEach(() => Object.values(seen).forEach((types) => types.splice(0)));

const guard: CanActivate = {
  canActivate(context: ExecutionContext) {
    seen.guard.push(context.getType());
    return true;
  },
};

const interceptor: NestInterceptor = {
  intercept(context, next) {
    seen.interceptor.push(context.getType());
    return next.handle();
  },
};

@Catch()
class CatchAll implements ExceptionFilter {
  catch(_error: unknown, host: ArgumentsHost): never {
    seen.filter.push(host.getType());
    throw new Error('the global filter was here');
  }
}

const byProviders: Provider[] = [
  { provide: APP_GUARD, useValue: guard },
  { provide: APP_INTERCEPTOR, useValue: interceptor },
  { provide: APP_FILTER, useClass: CatchAll },
];

function byMethods(app: INestApplication): void {
  app.useGlobalGuards(guard);
  app.useGlobalInterceptors(interceptor);
  app.useGlobalFilters(new CatchAll());
}

const forms = [
  ['APP_GUARD, APP_INTERCEPTOR and APP_FILTER', { root: { providers: byProviders } }],
  ['app.useGlobalGuards and its kin', { configure: byMethods }],
] as const;

describe.each(forms)("The app's global enhancers, by %s", (_form, options) => {
  test('stay out of turns by default, and run around the endpoints', async () => {
    const app = await fixture.start({ ...options, execute: () => Promise.reject(new Error('fire')) });
    const task = await send(await app.client(), 'hello');
    expect([stateName(task), textOf(task.status?.message)]).toEqual(['FAILED', expect.stringContaining('fire')]);
    expect(new Set([...seen.guard, ...seen.interceptor])).toEqual(new Set(['http']));
    expect(seen.filter).toEqual([]);
  });

  test('run around turns too with globalEnhancers', async () => {
    const app = await fixture.start({
      ...options,
      execute: () => Promise.reject(new Error('fire')),
      cluster: { globalEnhancers: true },
    });
    const task = await send(await app.client(), 'hello');
    expect([stateName(task), textOf(task.status?.message)]).toEqual([
      'FAILED',
      expect.stringContaining('the global filter was here'),
    ]);
    expect(seen).toEqual({ guard: ['http', 'a2a'], interceptor: ['http', 'a2a'], filter: ['a2a'] });
  });
});

test('a global guard that refuses turns leaves no task, with globalEnhancers', async () => {
  const noTurns: CanActivate = { canActivate: (context: ExecutionContext) => context.getType<string>() !== 'a2a' };
  const app = await fixture.start({
    execute: (context, bus) => completed(bus, context),
    cluster: { globalEnhancers: true },
    configure: (nest) => nest.useGlobalGuards(noTurns),
  });
  const count = 'SELECT count(*) AS tasks FROM a2a_tasks';
  const before = await fixture.database.query(count);
  expect(await errorName(send(await app.client(), 'hello'))).toBe('UnsupportedOperationError');
  expect(await fixture.database.query(count)).toEqual(before);
});
