/** The transports that take requests. */
export type TransportName = 'jsonRpc' | 'rest';

/** Where each transport is served, below the app's global prefix; `false`: not at all. */
export interface TransportPaths {
  jsonRpc: string | false;
  rest: string | false;
  /** Served at the root, outside of the global prefix and of guards: clients look for it there. */
  agentCard: string | false;
  /** Largest request body in bytes. Nest's own parser stops at 100 kB. */
  bodyLimitBytes: number;
}

/** A path with one slash in front and none at the end; '' stays ''. */
export const normalizedPath = (path: string): string => {
  const trimmed = path.replace(/^\/+|\/+$/g, '');
  return trimmed ? `/${trimmed}` : '';
};

/** The part of a URL below a mounted path, as Express gives it to a mounted handler. Undefined where it is elsewhere. */
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
