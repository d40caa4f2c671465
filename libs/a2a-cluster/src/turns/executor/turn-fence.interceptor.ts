import type { CallHandler, ExecutionContext, NestInterceptor } from '@nestjs/common';
import { defer, last, lastValueFrom, Observable, race } from 'rxjs';
import { copyTask } from '../../tasks/task-event.codec.js';
import { runInTurn } from '../current-turn.js';
import type { FencedEventBus } from '../fenced-event-bus.js';
import type { TurnAdmission } from '../turn-admission.js';
import type { ExecutionOutcome, TurnConclusion } from '../turn-conclusion.js';
import type { TurnExecution } from '../turn-execution.js';
import { TurnRequestContext } from '../turn-request-context.js';

/**
 * The outermost interceptor of every turn. What is inside it, the users' interceptors and the executor, runs only once
 * the turn is admitted, only while it may, and is over only when everything it published is stored.
 */
export class TurnFenceInterceptor implements NestInterceptor {
  constructor(
    private readonly admission: TurnAdmission,
    private readonly conclusion: TurnConclusion,
  ) {}

  intercept(context: ExecutionContext, next: CallHandler): Observable<void> {
    const request = context.getArgByIndex<unknown>(0);
    const { execution } = context.getArgByIndex<FencedEventBus>(1);
    return defer(async () => {
      await this.admission.admit(execution, execution.preAdmitted);
      const { admittedTask } = execution;
      if (admittedTask && request instanceof TurnRequestContext) request.admitted(copyTask(admittedTask.task));
      const outcome = await runInTurn(execution, execution.over, () => settle(execution, next));
      await this.conclusion.conclude(execution, outcome);
    });
  }
}

/** Whichever comes first: the executor comes back, it has answered with a message, or the turn is stopped. */
function settle({ signal, replied }: TurnExecution, next: CallHandler): Promise<ExecutionOutcome> {
  const stopped = new Observable<never>((subscriber) => {
    const stop = (): void => subscriber.error(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
    return () => signal.removeEventListener('abort', stop);
  });
  const returned = defer(() => next.handle()).pipe(last(undefined, undefined));
  return lastValueFrom(race(stopped, returned, replied.promise), { defaultValue: undefined }).then(
    () => ({ kind: 'returned' }),
    (error: unknown) => ({ kind: 'threw', error }),
  );
}
