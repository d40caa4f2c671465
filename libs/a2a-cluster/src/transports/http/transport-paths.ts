import type { TransportPaths } from '../../options/transport.options.js';

/** The transports that take requests over HTTP. */
export type TransportName = 'jsonRpc' | 'rest';

/**
 * The part of a URL below a mounted path, as Express gives it to a mounted handler. Undefined where it is elsewhere.
 */
export function below(url: string, prefix: string, path: string): string | undefined {
  for (const base of [prefix + path, path]) {
    const rest = url.slice(base.length);
    // Express' routes ignore case.
    if (url.slice(0, base.length).toLowerCase() === base.toLowerCase() && (rest === '' || /^[/?]/.test(rest)))
      return rest.startsWith('/') ? rest : `/${rest}`;
  }
  return undefined;
}

/** The transport that serves a URL: where one path lies inside the other, the longer one. */
export function transportAt(paths: TransportPaths, prefix: string, url: string): TransportName | undefined {
  const serving = (['jsonRpc', 'rest'] as const).filter((name) => {
    const path = paths[name];
    return path !== false && below(url, prefix, path) !== undefined;
  });
  return serving.sort((one, other) => String(paths[other]).length - String(paths[one]).length)[0];
}
