@echo off
rem Starts SiliconRoute's main job: measures this computer and shows what it found. Made for a double click;
rem options given to this file go to `siliconroute up`. It needs no administrator rights and changes nothing
rem outside of SiliconRoute's own folder in your profile.
rem
rem Nothing here changes the current folder: it cannot be one on a network share. The folder's name stands in quotes
rem everywhere and is never read again, so it may hold any letter.
setlocal EnableExtensions DisableDelayedExpansion
title SiliconRoute

rem Explorer shows an archive like a folder, and takes a file that is clicked there out of it alone.
if not exist "%~dp0siliconroute.exe" goto alone

rem What a double click does.
"%~dp0siliconroute.exe" up --once --open %*
set "code=%ERRORLEVEL%"

rem 0 is done, 2 wrong options, 130 interrupted: the program has said it all.
for %%c in (0 2 130) do if "%code%"=="%%c" goto end
>&2 echo.
>&2 echo SiliconRoute ended with code %code%. What may be wrong:
>&2 echo   "%~dp0siliconroute.exe" doctor
goto end

:alone
>&2 echo There is no siliconroute.exe beside this file, or the path of this folder is too long. Unpack the whole
>&2 echo archive first (right click on it, then "Extract All...") and start start.bat in the new folder.
set "code=1"

:end
rem Without this the window of a double click would be gone before anyone could read it.
>&2 echo.
>&2 pause
exit /b %code%
