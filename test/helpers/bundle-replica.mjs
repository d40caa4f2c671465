/**
 * Usage: node bundle-replica.mjs OUTPUT
 *
 * Makes one file of the built replica, the built library and all that they import, except pg. A replica that finds 1,400
 * files takes 2 s of a core to start, one that reads a single one takes 0.7 s; tests start more than a hundred.
 */
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

/** What is preloaded into a replica patches pg: there has to be one pg, and it has to be found from anywhere. */
const onePg = {
  name: 'one-pg',
  setup({ onResolve }) {
    onResolve({ filter: /^pg$/ }, ({ kind }) => ({
      path: kind === 'require-call' ? 'pg' : fileURLToPath(import.meta.resolve('pg')),
      external: true,
    }));
  },
};

/** Packages that a dependency looks for and does without: left to be looked for, and not found, at run time. */
const notInstalled = {
  name: 'not-installed',
  setup(setup) {
    setup.onResolve({ filter: /^[@a-z]/ }, async ({ path, pluginData, ...options }) => {
      if (pluginData === notInstalled) return undefined;
      const found = await setup.resolve(path, { ...options, pluginData: notInstalled });
      return found.errors.length > 0 ? { path, external: true } : found;
    });
  },
};

await build({
  entryPoints: [fileURLToPath(new URL('../../dist/tools/replica/main.js', import.meta.url))],
  outfile: process.argv[2],
  bundle: true,
  platform: 'node',
  target: 'node20',
  format: 'esm',
  keepNames: true, // Nest names providers, and errors are told apart, by the names of their classes
  // Without it the paths of tsconfig.json lead to the sources, whose decorators esbuild strips of their types.
  tsconfigRaw: {},
  plugins: [onePg, notInstalled],
  banner: {
    js: `import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(${JSON.stringify(import.meta.url)});`,
  },
  logLevel: 'error',
});
