import type { InitializeHook, ResolveHook } from 'node:module';

let library = '';

export const initialize: InitializeHook<{ index: string }> = ({ index }) => {
  library = index;
};

/** The library comes from somewhere else; everything else from where it always does. */
export const resolve: ResolveHook = (specifier, context, next) =>
  specifier === 'nestjs-a2a-cluster' ? { url: library, shortCircuit: true } : next(specifier, context);
