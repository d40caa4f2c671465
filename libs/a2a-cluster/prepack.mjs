// Copies what the package has from the root of the repository: the README links to the docs, so they are packed with it.
import { cpSync, rmSync } from 'node:fs';

for (const name of ['CHANGELOG.md', 'LICENSE', 'README.md', 'SECURITY.md', 'docs']) {
  const copy = new URL(name, import.meta.url);
  // Pages that were removed or renamed since the last packing go too.
  rmSync(copy, { recursive: true, force: true });
  cpSync(new URL(`../../${name}`, import.meta.url), copy, { recursive: true });
}
