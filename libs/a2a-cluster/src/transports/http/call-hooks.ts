import type { A2ARequestHandler } from '@a2a-js/sdk/server';

/** A request handler with something done before each of its calls, which gets and returns the arguments. */
export function beforeCalls(
  handler: A2ARequestHandler,
  before: (name: keyof A2ARequestHandler, args: unknown[]) => unknown[],
): A2ARequestHandler {
  return new Proxy(handler, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== 'function') return member;
      return (...args: unknown[]): unknown =>
        Reflect.apply(member, target, before(name as keyof A2ARequestHandler, args)) as unknown;
    },
  });
}
