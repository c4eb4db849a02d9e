// Which view an address asks for: a catalog, a run's report, or the list. Views are ordinary addresses, so that
// the way back works and Airflow can keep them in its own.

import { showCatalog } from "./catalog.js";
import { showList } from "./list.js";
import { showRun } from "./run.js";
import { followTheme } from "./theme.js";

followTheme();
const asked = new URLSearchParams(window.location.search);
const main = document.getElementById("main");
main.replaceChildren();
if (asked.get("organization")) showCatalog(main, asked.get("organization"));
else if (asked.get("run")) showRun(main, asked.get("dag"), asked.get("run"));
else showList(main, asked.get("dag"));
