import { type CallHandler, type ExecutionContext, Injectable, type NestInterceptor } from '@nestjs/common';
import { defer, last, lastValueFrom, Observable, race } from 'rxjs';
import { runInTurn } from '../current-turn.js';
import type { FencedEventBus } from '../fenced-event-bus.js';
import type { ExecutorEnding } from '../turn-conclusion.js';
import type { TurnExecution } from '../turn-execution.js';

/**
 * The outermost interceptor of every turn. What is inside it, the users' interceptors and the executor, runs in the turn,
 * and only while it may. It emits how that came back, and never fails.
 */
@Injectable()
export class TurnFenceInterceptor implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<ExecutorEnding> {
    const { turn } = context.getArgByIndex<FencedEventBus>(1);
    return defer(() => runInTurn(turn, turn.left, () => firstEnding(turn, next)));
  }
}

/** Whichever comes first: the executor comes back, it has answered with a message, or the turn is stopped. */
function firstEnding({ signal, answered }: TurnExecution, next: CallHandler): Promise<ExecutorEnding> {
  const stopped = new Observable<never>((subscriber) => {
    const stop = (): void => subscriber.error(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
    return () => signal.removeEventListener('abort', stop);
  });
  const returned = defer(() => next.handle()).pipe(last(undefined, undefined));
  return lastValueFrom(race(stopped, returned, answered), { defaultValue: undefined }).then(
    () => ({ kind: 'returned' }),
    (error: unknown) => ({ kind: 'threw', error }),
  );
}
