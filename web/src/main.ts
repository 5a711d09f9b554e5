// The page of a report: its document is in the page.

import type { ReportDocument } from "./document";
import { listen, show } from "./report";

const root = document.getElementById("report");
if (root) {
  show(root, JSON.parse(document.getElementById("data")?.textContent ?? "") as ReportDocument);
  listen();
}
