# SPDX-License-Identifier: Apache-2.0
"""The page of heaptap html in Chromium: the time until it is shown, and until each view answers to a brush."""
import os
import pathlib
import statistics
import subprocess
import sys
import time

from common import HEAPTAP, is_short

PROGRAM = {False: "#include <regex>\nint main() { std::regex r(\"a(b|c)*\"); return 0; }\n",
           True: "int main() { return 0; }\n"}
VIEWS = ["grows", "flame", "tree", "sites", "functions", "history", "threads", "sizes", "lifetimes", "modules",
         "source"]
WINDOWS = 20
NEEDED = ["/usr/bin/chromium", "/usr/bin/chromedriver", "/usr/lib/python3/dist-packages/selenium"]

# A key that moves the selected time by a fiftieth, and what the page computes and draws until it is idle again.
ANSWER = """
const press = (key) => document.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
document.getElementById("tab-" + arguments[0]).click();
const times = [];
press("w");
press("[");
for (let i = 0; i < arguments[1]; i++) {
    const start = performance.now();
    press("]");
    document.getElementById("view").getBoundingClientRect();
    times.push(performance.now() - start);
}
press("w");
return times;
"""


def make_page(folder):
    """A compiler has deep stacks of many functions: some 400,000 nodes for this program."""
    source, trace = os.path.join(folder, "page.cc"), os.path.join(folder, "page.htap")
    page = os.path.join(folder, "page.html")
    with open(source, "w", encoding="ascii") as out:
        out.write(PROGRAM[is_short()])
    subprocess.run([HEAPTAP, "run", "-q", "-f", "-o", trace, "--", "clang++-14", "-O0", "-c", "-o", "/dev/null", source],
                   check=True)
    subprocess.run([HEAPTAP, "html", trace, "-f", "-o", page], check=True, stderr=subprocess.DEVNULL)
    os.unlink(trace)
    return page


def browser():
    # Debian's, also for another python3.
    # pylint: disable=import-outside-toplevel,import-error
    sys.path.append(os.path.dirname(NEEDED[2]))
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    options = Options()
    for argument in ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"]:
        options.add_argument(argument)
    return webdriver.Chrome(service=Service(NEEDED[1]), options=options)


def measure(driver, page):
    driver.get(pathlib.Path(page).resolve().as_uri())
    while not driver.execute_script("return performance.getEntriesByName('shown').length"):
        time.sleep(0.05)
    found = {"shown_ms": driver.execute_script("return performance.getEntriesByName('shown')[0].startTime"),
             "nodes": driver.execute_script("return heaptap.model().tree.count"), "answer_ms": {}}
    for view in VIEWS:
        found["answer_ms"][view] = statistics.median(driver.execute_script(ANSWER, view, WINDOWS))
    return found


def run_page(count, folder):
    if not all(os.path.exists(path) for path in NEEDED):
        print("page: needs chromium, chromium-driver and python3-selenium")
        return None
    page = make_page(folder)
    driver = browser()
    try:
        rounds = [measure(driver, page) for _ in range(max(count, 3))]
    finally:
        driver.quit()
    slowest = {view: min(one["answer_ms"][view] for one in rounds) for view in VIEWS}
    name = max(slowest, key=slowest.get)
    print(f"page of {rounds[0]['nodes']} nodes, {os.path.getsize(page) >> 10} KiB: shown after "
          f"{min(one['shown_ms'] for one in rounds):.0f} ms; a brush takes at most {slowest[name]:.0f} ms ({name})")
    return {"bytes": os.path.getsize(page), "rounds": rounds}
